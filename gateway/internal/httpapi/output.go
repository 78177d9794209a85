package httpapi

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
)

// missingOutput is where output is no longer kept.
const missingOutput = "\n[... output is missing here ...]\n"

// jobOutput answers GET /v1/jobs/{id}/output, in JSON a page and as text all of it.
func jobOutput(s *Server, g *gin.Context, r route) {
	c, err := s.admit(g, r)
	if err != nil {
		refuse(g, err)
		return
	}
	c.Answer = s.bodies.Answer(bodyOwner(c))
	defer func() { c.Answer.Release() }()
	page, err := s.handlers.ReadOutput(g.Request.Context(), c)
	if err != nil {
		refuse(g, err)
		return
	}
	if asksForText(g.Request.Header["Accept"]) {
		s.writeText(g, c, page)
		return
	}
	text, err := s.encode(g, r, page)
	if err != nil {
		refuse(g, err)
		return
	}
	write(g, call.Response[api.OutputPage]{Value: page}, text)
}

// writeText writes a page, and those after it.
func (s *Server) writeText(g *gin.Context, c *call.Call, page api.OutputPage) {
	header := g.Writer.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "sandbox")
	showLimits(c, header)
	id, _ := c.ID() // it was read
	for {
		for i := range page.Items {
			if page.Items[i].Gap {
				_, _ = g.Writer.WriteString(missingOutput) // as below
			}
			if _, err := g.Writer.WriteString(page.Items[i].Text); err != nil {
				return // the caller has left
			}
		}
		if !page.More {
			g.Writer.WriteHeaderNow()
			return
		}
		last, _ := api.ParseOutputPlace(page.Items[len(page.Items)-1].ID)
		var err error
		if page, err = s.handlers.OutputAfter(g.Request.Context(), c, id, last); err != nil {
			c.Err = err
			panic(http.ErrAbortHandler) // a partial answer must not look complete
		}
	}
}

// asksForText says whether a request prefers text to JSON.
func asksForText(accept []string) bool {
	for _, one := range accept {
		for kind := range strings.SplitSeq(one, ",") {
			name, _, err := mime.ParseMediaType(kind)
			switch {
			case err != nil:
			case name == "text/plain":
				return true
			case slices.Contains([]string{"application/json", "*/*", "application/*"}, name):
				return false
			}
		}
	}
	return false
}
