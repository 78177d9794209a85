package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/gateway/internal/docs"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// docsPage answers GET /docs with the page.
//
//	@Summary     This documentation
//	@Description A page to read the API and to try it out, for people. It works while core is away.
//	@ID          docs
//	@Tags        Health
//	@Produce     html
//	@Success     200 {string} string "The page."
//	@x-access    "public"
//	@Router      /docs [get]
func docsPage(_ *Server, g *gin.Context, _ route) { docs.Serve(g.Writer, g.Request, docs.Page) }

// docsSlash answers GET /docs/: it redirects to /docs. The location is relative,
// because a proxy may have a path prefix.
//
//	@Summary     This documentation, with a slash too many
//	@Description Sends you to `/docs`.
//	@ID          docsSlash
//	@Tags        Health
//	@Success     308 "The page is at `Location`."
//	@Header      308 {string} Location "`../docs`"
//	@x-access    "public"
//	@Router      /docs/ [get]
func docsSlash(_ *Server, g *gin.Context, _ route) {
	g.Writer.Header().Set("Location", "../docs")
	g.Writer.WriteHeader(http.StatusPermanentRedirect)
	g.Writer.WriteHeaderNow()
}

// docsFile answers GET /docs/{file} with one of the page's files, or a document.
//
//	@Summary     The documents, and the page's files
//	@Description `gateway.json` is the OpenAPI document of the public API, `core.json` that of core's internal one. They come with an `ETag`.
//	@ID          docsFile
//	@Tags        Health
//	@Produce     json
//	@Param       file path string true "The file's name."
//	@Success     200 {object} any "The document; other files have types of their own."
//	@Header      200,304 {string} ETag "Changes with the file."
//	@Success     304 "It is as If-None-Match names it."
//	@Param       If-None-Match header string false "The ETag of what you have."
//	@x-access    "public"
//	@x-problems  ["not_found"]
//	@Router      /docs/{file} [get]
func docsFile(_ *Server, g *gin.Context, _ route) {
	name := g.Param("file")
	if !docs.Has(name) || name == docs.Page {
		refuse(g, problem.New(problem.NotFound, "There is no such file; the documentation is at /docs."))
		return
	}
	docs.Serve(g.Writer, g.Request, name)
}

// problemPage answers GET /problems/{code}: the `type` of a problem can be opened.
//
//	@Summary     What a problem code means
//	@Description A page for people: when an answer has this code, and what to do. It works while core is away.
//	@ID          problemPage
//	@Tags        Health
//	@Produce     html
//	@Param       code path string true "The problem's code."
//	@Success     200 {string} string "The page."
//	@x-access    "public"
//	@x-problems  ["not_found"]
//	@Router      /problems/{code} [get]
func problemPage(_ *Server, g *gin.Context, _ route) {
	name := docs.ProblemPage(g.Param("code"))
	if !docs.Has(name) {
		refuse(g, problem.New(problem.NotFound, "There is no problem with this code; /problems/not_found has a list of all codes."))
		return
	}
	docs.Serve(g.Writer, g.Request, name)
}
