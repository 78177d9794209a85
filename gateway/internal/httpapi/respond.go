package httpapi

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// showLimits sets the rate limit headers of a decision, if there was one.
func showLimits(c *call.Call, header http.Header) {
	if c.Payer.Decision != nil {
		admission.SetHeaders(header, c.Payer.Decision)
	}
}

// write sends a handler's answer; text is its value, encoded.
func write[T any](g *gin.Context, answer call.Response[T], text []byte) {
	status := answer.Status
	if status == 0 {
		status = http.StatusOK
	}
	header := g.Writer.Header()
	header.Set("Cache-Control", "no-store")
	c := callOf(g)
	showLimits(c, header)
	if c.Principal().Kind == hop.PrincipalOperator {
		header.Set("Server-Timing", c.Spent.ServerTiming())
	}
	if status == http.StatusServiceUnavailable {
		header.Set("Retry-After", "1")
	}
	if answer.Location != "" {
		header.Set("Location", answer.Location)
	}
	if answer.Replayed {
		header.Set("Idempotent-Replayed", "true")
	}
	if answer.ETag != "" {
		header.Set("ETag", answer.ETag)
	}
	if answer.Applied != "" {
		header.Set("Preference-Applied", answer.Applied)
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		g.Writer.WriteHeader(status)
		g.Writer.WriteHeaderNow()
		return
	}
	header.Set("Content-Type", "application/json")
	if len(text) > ownLength {
		header.Set("Content-Length", strconv.Itoa(len(text)))
	}
	g.Writer.WriteHeader(status)
	_, _ = g.Writer.Write(text) // if this fails the caller has left; the log line has the status
}

// ownLength bytes fit into net/http's buffer, so that it sets Content-Length itself
// when the handler returns. With one header less those of a usual answer stay a map of
// eight, which grows neither here nor when net/http copies it.
const ownLength = 2000

// refuse sends the problem of err. The error is logged in the request's log line only.
func refuse(g *gin.Context, err error) {
	c := callOf(g)
	p := c.Sign(problemOf(err))
	c.Code, c.Err = p.Code, err
	showLimits(c, g.Writer.Header())
	if p.RetryAfterMS == nil && (p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable) {
		p = p.WithRetryAfter(retryAfter()) // core gave none
	}
	if p.Code == problem.Unauthenticated {
		g.Writer.Header().Set("WWW-Authenticate", "Bearer")
	}
	p.Write(g.Writer)
}
