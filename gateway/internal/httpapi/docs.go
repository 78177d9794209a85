package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/gateway/internal/docs"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// docsRoutes are the documentation. They ask nobody, so that it can be read while
// core is away.
func (s *Server) docsRoutes() []endpoint {
	open := func(path string, serve gin.HandlerFunc) endpoint {
		return endpoint{route: route{method: http.MethodGet, path: path, access: public()}, serve: serve}
	}
	return []endpoint{
		open("/docs", s.docsPage),
		open("/docs/", s.docsSlash),
		open("/docs/{file}", s.docsFile),
	}
}

// docsPage answers GET /docs with the page.
func (s *Server) docsPage(g *gin.Context) { docs.Serve(g.Writer, g.Request, docs.Page) }

// docsSlash answers GET /docs/: the page is at /docs. The way is relative, for a
// proxy may have put a path before both.
func (s *Server) docsSlash(g *gin.Context) {
	g.Writer.Header().Set("Location", "../docs")
	g.Writer.WriteHeader(http.StatusPermanentRedirect)
	g.Writer.WriteHeaderNow()
}

// docsFile answers GET /docs/{file} with one of the page's files, or a document.
func (s *Server) docsFile(g *gin.Context) {
	name := g.Param("file")
	if !docs.Has(name) || name == docs.Page {
		refuse(g, problem.New(problem.NotFound, "There is no such file; the documentation is at /docs."))
		return
	}
	docs.Serve(g.Writer, g.Request, name)
}
