package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/gateway/internal/docs"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// docsPage answers GET /docs with the page.
func docsPage(_ *Server, g *gin.Context, _ route) { docs.Serve(g.Writer, g.Request, docs.Page) }

// docsSlash answers GET /docs/: it redirects to /docs. The location is relative,
// because a proxy may have a path prefix.
func docsSlash(_ *Server, g *gin.Context, _ route) {
	g.Writer.Header().Set("Location", "../docs")
	g.Writer.WriteHeader(http.StatusPermanentRedirect)
	g.Writer.WriteHeaderNow()
}

// docsFile answers GET /docs/{file} with one of the page's files, or a document.
func docsFile(_ *Server, g *gin.Context, _ route) {
	name := g.Param("file")
	if !docs.Has(name) || name == docs.Page {
		refuse(g, problem.New(problem.NotFound, "There is no such file; the documentation is at /docs."))
		return
	}
	docs.Serve(g.Writer, g.Request, name)
}

// problemPage answers GET /problems/{code}: the `type` of a problem can be opened.
func problemPage(_ *Server, g *gin.Context, _ route) {
	name := docs.ProblemPage(g.Param("code"))
	if !docs.Has(name) {
		refuse(g, problem.New(problem.NotFound, "There is no problem with this code; /problems/not_found has a list of all codes."))
		return
	}
	docs.Serve(g.Writer, g.Request, name)
}
