// Package call has one request of the public API, the answer to it, and how core is asked for that: the shapes that most
// operations have (ByID, ByName, Put, Paged, Filtered …) are functions of it.
package call

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/memory"
)

// Call is one request as its handler sees it.
type Call struct {
	RequestID     string
	CorrelationID string
	// Traceparent is the request's own span where spans are made, else what the client
	// sent; empty where that is nothing well-formed.
	Traceparent string
	// Instance is the path that the request is for, as problems have it.
	Instance string
	// Began is when the request arrived.
	Began time.Time

	Caller auth.Caller
	Payer  admission.Payer // whom the request is charged to
	// Params are the path's, such as id, unescaped.
	Params      map[string]string
	Query       url.Values
	Idempotency *hop.Idempotency // nil where the request has no Idempotency-Key
	// Prefer, IfNoneMatch and IfMatch are the headers of these names, as they came.
	Prefer, IfNoneMatch, IfMatch []string
	// Body counts the memory of the request's body.
	Body request.Body
	// Answer counts the memory of the answer; nil counts none.
	Answer *memory.Hold
	// Host is the one that the request was for; Secure says that it came by https.
	Host   string
	Secure bool
	// Link is what the path's token sends, of a route that takes one.
	Link auth.SignalLink
	// Address is the client's; the zero address where there is none.
	Address netip.Addr

	// Code and Err are why the request was refused, for its log line.
	Code problem.Code
	Err  error

	// Spent is what the request has cost, for operators.
	Spent Spent

	// wait is how long the caller is ready to wait beyond the usual timeout.
	Wait time.Duration
}

// Spent is the time that a request has taken: of this process to decode it and to encode its answer, and until core
// answered.
type Spent struct {
	Decode, Encode time.Duration
	// Core counts nanoseconds: a request may ask core several things at once.
	Core atomic.Int64
}

// ServerTiming is the header of that name, in milliseconds.
func (s *Spent) ServerTiming() string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("decode;dur=%g, core;dur=%g, encode;dur=%g", ms(s.Decode), ms(time.Duration(s.Core.Load())), ms(s.Encode))
}

// Origin is how the caller reaches the gateway: a scheme and a host.
func (c *Call) Origin() string {
	if c.Secure {
		return "https://" + c.Host
	}
	return "http://" + c.Host
}

// Principal is on whose behalf core is asked.
func (c *Call) Principal() hop.Principal { return c.Caller.Principal }

// KeyFor is the request's Idempotency-Key, of what its path names and its body does not.
func (c *Call) KeyFor(name string) *hop.Idempotency {
	if c.Idempotency == nil {
		return nil
	}
	key := *c.Idempotency
	key.Operation += " " + name
	return &key
}

// The answers to malformed, unknown and foreign ids alike, and to unknown workers.
var (
	ErrNoSuchID     = problem.New(problem.NotFound, "There is no resource with this id, or the API key has no access to it.")
	errNoSuchWorker = problem.New(problem.WorkerUnknown, "The worker is not registered, or is DEAD; register it again.")
)

// ID gives the path's {id}, which must be a UUID, in lower case.
func (c *Call) ID() (string, error) {
	id, ok := request.UUID(c.Params["id"])
	if !ok {
		return "", ErrNoSuchID
	}
	return id, nil
}

// Name gives the path's {name}, which must be one that a queue or a schedule can have.
func (c *Call) Name() (string, error) { return c.named("name", api.ValidName) }

// Worker gives the path's {worker_id}.
func (c *Call) Worker() (string, error) { return c.named("worker_id", api.ValidLabel) }

// User gives the path's {user}.
func (c *Call) User() (string, error) { return c.named("user", api.ValidLabel) }

// TypeName gives the path's {type}.
func (c *Call) TypeName() (string, error) { return c.named("type", api.ValidName) }

func (c *Call) named(param string, valid func(string) bool) (string, error) {
	value := c.Params[param]
	if !valid(value) {
		return "", Malformed(param)
	}
	return value, nil
}

// Malformed refuses a parameter of a path. Users choose names: a malformed one is a mistake that they are told, and not
// something that does not exist, as an id is.
func Malformed(param string) error {
	switch param {
	case "name", "type":
		return problem.Invalid(problem.FieldError{Field: param, Message: request.NameRule})
	case "worker_id", "user":
		return problem.Invalid(problem.FieldError{Field: param, Message: request.LabelRule})
	}
	return ErrNoSuchID
}

// Sign sets the request's instance and id in a problem.
func (c *Call) Sign(p *problem.Problem) *problem.Problem {
	signed := *p
	signed.Instance, signed.RequestID = c.Instance, c.RequestID
	if signed.Errors == nil {
		signed.Errors = []problem.FieldError{}
	}
	if signed.Policies == nil {
		signed.Policies = []problem.Policy{}
	}
	return &signed
}

// PreferredWait reads Prefer: wait=n. left is the remaining time, counted from the
// request's arrival (RFC 7240); never below 0. applied is the value of
// Preference-Applied, empty where there is no preference that can be honoured.
func (c *Call) PreferredWait() (left time.Duration, applied string) {
	seconds, ok := request.PreferredWait(c.Prefer)
	if !ok {
		return 0, ""
	}
	left = time.Duration(seconds)*time.Second - time.Since(c.Began)
	return max(left, 0).Truncate(time.Millisecond), "wait=" + strconv.Itoa(seconds)
}
