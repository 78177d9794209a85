package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// excerptSize is how much of an unexpected body an error shows, in bytes.
const excerptSize = 200

// StatusError is an answer that is neither a documented one of the API nor a problem
// document: usually from a proxy, or another server.
type StatusError struct {
	// Status is the HTTP status; 2xx where the body did not fit.
	Status int
	// Body is the first 200 bytes of the body.
	Body string
	// RetryAfter is what the Retry-After header asked for; 0 if nothing.
	RetryAfter time.Duration
	cause      error
}

// Error shows the status and the start of the body.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status))
	if e.cause != nil {
		text += fmt.Sprintf(" with a body that is not the JSON expected (%v)", e.cause)
	} else {
		text += " without a problem document"
	}
	return fmt.Sprintf("%s: %q", text, e.Body)
}

// Unwrap gives the decoder's error, if that is what went wrong.
func (e *StatusError) Unwrap() error { return e.cause }

// Status gives the HTTP status inside err: that of a problem or of a
// StatusError; 0 if no answer came.
func Status(err error) int {
	if p, ok := problem.From(err); ok {
		return p.Status
	}
	if odd, ok := errors.AsType[*StatusError](err); ok {
		return odd.Status
	}
	return 0
}

// RetryAfter gives how long the server asked to wait before another try; 0 if it
// did not.
func RetryAfter(err error) time.Duration {
	if p, ok := problem.From(err); ok && p.RetryAfterMS != nil {
		return time.Duration(max(*p.RetryAfterMS, 0)) * time.Millisecond
	}
	if odd, ok := errors.AsType[*StatusError](err); ok {
		return odd.RetryAfter
	}
	return 0
}

// refusal makes an error of an answer that is not 2xx.
func refusal(status int, header http.Header, body []byte) error {
	after, asked := retryAfterHeader(header, time.Now())
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	var p problem.Problem
	if media != problem.ContentType || json.Unmarshal(body, &p) != nil || p.Code == "" {
		return &StatusError{Status: status, Body: excerpt(body), RetryAfter: after}
	}
	p.Status = status // that of the response, not of the document
	if p.RetryAfterMS == nil && asked {
		_ = p.WithRetryAfter(after)
	}
	return &p
}

// retryAfterHeader reads Retry-After: seconds or a date (RFC 9110, section 10.2.3).
func retryAfterHeader(header http.Header, now time.Time) (time.Duration, bool) {
	value := header.Get("Retry-After")
	if value == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return time.Duration(max(seconds, 0)) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(at.Sub(now), 0), true
	}
	return 0, false
}

func excerpt(body []byte) string {
	return strings.ToValidUTF8(string(body[:min(len(body), excerptSize)]), "\uFFFD")
}
