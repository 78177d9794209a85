package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// showLimits sets the headers that tell of a decision, where there was one.
func (c *call) showLimits(header http.Header) {
	if c.account.Decision != nil {
		admission.SetHeaders(header, c.account.Decision)
	}
}

// write sends a handler's answer; an error means that nothing was sent.
func write[T any](g *gin.Context, answer reply[T]) error {
	status := answer.status
	if status == 0 {
		status = http.StatusOK
	}
	header := g.Writer.Header()
	header.Set("Cache-Control", "no-store")
	callOf(g).showLimits(header)
	if status == http.StatusServiceUnavailable {
		header.Set("Retry-After", "1")
	}
	if answer.location != "" {
		header.Set("Location", answer.location)
	}
	if answer.replayed {
		header.Set("Idempotent-Replayed", "true")
	}
	if answer.etag != "" {
		header.Set("ETag", answer.etag)
	}
	if answer.applied != "" {
		header.Set("Preference-Applied", answer.applied)
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		g.Writer.WriteHeader(status)
		g.Writer.WriteHeaderNow()
		return nil
	}
	text, err := encode(answer.value)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	header.Set("Content-Type", "application/json")
	if len(text) > ownLength {
		header.Set("Content-Length", strconv.Itoa(len(text)))
	}
	g.Writer.WriteHeader(status)
	_, _ = g.Writer.Write(text) // if this fails the caller has gone; the log line has the status
	return nil
}

// ownLength bytes fit into net/http's buffer, so that it knows the length when the
// handler is done, and writes it by itself. With one header less those of a usual
// answer stay a map of eight, which is neither grown here nor, in being copied, there.
const ownLength = 2000

// encode leaves <, > and & as they are, and raw JSON byte for byte: a payload
// comes back as it was sent, a replay as it was stored.
func encode(value any) ([]byte, error) {
	if raw, ok := value.(json.RawMessage); ok {
		return raw, nil
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

// refuse sends what err means. It is where an error ends: the log line tells it.
func refuse(g *gin.Context, err error) {
	c := callOf(g)
	p := c.sign(problemOf(err))
	c.code, c.err = p.Code, err
	c.showLimits(g.Writer.Header())
	if p.RetryAfterMS == nil && (p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable) {
		p = p.WithRetryAfter(retryAfter()) // core has not said when
	}
	if p.Code == problem.Unauthenticated {
		g.Writer.Header().Set("WWW-Authenticate", "Bearer")
	}
	p.Write(g.Writer)
}
