package httpapi

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
)

// exportUser answers GET /v1/users/{user}/export: a line of JSON for each thing.
func exportUser(s *Server, g *gin.Context, r route) {
	c, err := s.admit(g, r)
	if err != nil {
		refuse(g, err)
		return
	}
	leave, err := s.streams.enter(c.Principal().Tenant, c.Principal().KeyID)
	if err != nil {
		refuse(g, err)
		return
	}
	defer leave()
	c.Answer = s.bodies.Answer(bodyOwner(c))
	defer func() { c.Answer.Release() }()
	control := http.NewResponseController(g.Writer)
	begun := false
	good, release := s.auth.WhileGood(g.Request.Context(), c.Caller)
	defer release()
	err = s.handlers.ExportUser(good, c, func(line *api.ExportLine) error {
		text, err := call.Encode(line)
		if err != nil {
			return err
		}
		if !begun {
			begun = true
			header := g.Writer.Header()
			header.Set("Content-Type", "application/jsonl")
			header.Set("Cache-Control", "no-store")
			showLimits(c, header)
		}
		if err := control.SetWriteDeadline(time.Now().Add(s.streams.times.write)); err != nil {
			return err
		}
		_, err = g.Writer.Write(append(text, '\n'))
		if line.Kind == api.ExportJob { // what was read for the one before is no longer needed
			c.Answer.Release()
			c.Answer = s.bodies.Answer(bodyOwner(c))
		}
		return err
	})
	switch {
	case err == nil:
	case begun:
		c.Err = err
		panic(http.ErrAbortHandler) // a partial answer must not look complete
	default:
		refuse(g, err)
	}
}
