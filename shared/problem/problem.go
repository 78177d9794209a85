// Package problem holds the errors that callers of ForgeQueue see: RFC 9457
// problem documents with a closed set of codes.
//
// A Problem is an error. Handlers return one, the HTTP layer writes it, and the
// SDK gives it back to errors.As. Anything that is not a Problem is "internal"
// to the caller and stays whole in the log.
package problem

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// ContentType is the media type of a problem document (RFC 9457, section 3).
const ContentType = "application/problem+json"

// Problem is one problem document. Every field is present in JSON, null or
// empty where there is nothing to say.
type Problem struct {
	// Type is a relative reference, /problems/CODE.
	Type string `json:"type"`
	// Title is the same for every problem with this code.
	Title string `json:"title"`
	// Status is the HTTP status the problem is sent with.
	Status int `json:"status"`
	// Detail says what is wrong with this request and what to change.
	Detail string `json:"detail"`
	// Instance is the path that was asked for.
	Instance string `json:"instance"`
	Code     Code   `json:"code"`
	// RequestID names the request in the logs.
	RequestID string `json:"request_id"`
	// RetryAfterMS is how long to wait before another try, in milliseconds;
	// null where waiting does not help.
	RetryAfterMS *int64 `json:"retry_after_ms"`
	// Errors names each field that was refused.
	Errors []FieldError `json:"errors"`
	// Policies names each limit that refused.
	Policies []Policy `json:"policies"`
}

// FieldError is one refused field, named as in "jobs[3].priority".
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Policy is one limit that refused a request.
type Policy struct {
	Name         string `json:"name"`
	Limit        int64  `json:"limit"`
	Current      int64  `json:"current"`
	RetryAfterMS *int64 `json:"retry_after_ms"`
}

// New makes a problem with the code's own status and title.
func New(code Code, detail string) *Problem {
	known := lookup(code)
	return &Problem{
		Type:     "/problems/" + string(code),
		Title:    known.title,
		Status:   known.status,
		Detail:   detail,
		Code:     code,
		Errors:   []FieldError{},
		Policies: []Policy{},
	}
}

// Invalid is an invalid_request that names its fields, in the order that the API's document has them.
func Invalid(fields ...FieldError) *Problem {
	p := New(InvalidRequest, "The request has fields that cannot be accepted; see errors.")
	if len(fields) == 1 {
		p.Detail = fields[0].Field + ": " + fields[0].Message
	}
	p.Errors = append(p.Errors, fields...)
	inOrder(p.Errors)
	return p
}

// WithRetryAfter sets how long the caller should wait; a negative wait is none.
func (p *Problem) WithRetryAfter(wait time.Duration) *Problem {
	ms := max(wait.Milliseconds(), 0)
	p.RetryAfterMS = &ms
	return p
}

// Error makes a Problem an error.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Code)
	}
	return string(p.Code) + ": " + p.Detail
}

// From gives the Problem inside err, and whether there is one.
func From(err error) (*Problem, bool) { return errors.AsType[*Problem](err) }

// RetryAfterSeconds is the Retry-After header's value: whole seconds, rounded
// up, at least 1 (RFC 9110, section 10.2.3). Empty where waiting does not help.
func (p *Problem) RetryAfterSeconds() string {
	if p.RetryAfterMS == nil {
		return ""
	}
	return strconv.FormatInt(max((*p.RetryAfterMS+999)/1000, 1), 10)
}

// Write sends the problem. It is the only place where one becomes bytes.
func (p *Problem) Write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // strings and integers only: it cannot fail
		http.Error(w, string(p.Code), p.Status)
		return
	}
	header := w.Header()
	header.Set("Content-Type", ContentType)
	header.Set("Cache-Control", "no-store")
	if after := p.RetryAfterSeconds(); after != "" {
		header.Set("Retry-After", after)
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // if this fails the caller has left
}
