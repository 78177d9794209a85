package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// sessionCheck is how often an open stream asks whether its session still lasts.
const sessionCheck = 10 * time.Second

// stream passes a job's events on, as the API has them, for the key of the session. It ends with the session.
func (c *Console) stream() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := c.visit(w, r)
		of, err := c.sealer.FromRequest(r, c.now())
		if err != nil {
			v.fail(v.toSignIn())
			return
		}
		v.session, v.key = of, of.Key
		if err := v.stillSignedIn(); err != nil {
			v.fail(err)
			return
		}
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		inner, err := v.request(ctx, http.MethodGet, resource("jobs", r.PathValue("id"), "events"), nil, nil)
		if err != nil {
			panic(fmt.Errorf("job events: %w", err)) // the path is escaped
		}
		c.api.ServeHTTP(&streamed{ResponseWriter: w, visit: v, checked: c.now(), stop: stop}, inner)
	})
}

// streamed is the answer of a stream. The API writes something every 15 s at least: that is when the session is looked at.
type streamed struct {
	http.ResponseWriter

	visit   *visit
	checked time.Time
	stop    context.CancelFunc
}

func (s *streamed) Write(p []byte) (int, error) {
	if now := s.visit.console.now(); now.Sub(s.checked) >= sessionCheck {
		s.checked = now
		if err := s.visit.stillSignedIn(); sessionOver(err) {
			s.stop()
			return 0, err
		}
	}
	return s.ResponseWriter.Write(p)
}

// sessionOver says whether an error of stillSignedIn is the end of the session: a core that is away ends none.
func sessionOver(err error) bool {
	_, elsewhere := errors.AsType[movedError](err)
	refused, known := problem.From(err)
	return elsewhere || known && refused.Code == problem.Unauthenticated
}

// Flush is for what asks for a Flusher; Unwrap for http.ResponseController.
func (s *streamed) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() }

func (s *streamed) Unwrap() http.ResponseWriter { return s.ResponseWriter }
