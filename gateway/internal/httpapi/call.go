package httpapi

import (
	"net/netip"
	"net/url"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// call is one request as its handler sees it, and what its log line tells.
type call struct {
	requestID     string
	correlationID string
	// traceparent is the request's own span where spans are made, else what the client
	// sent; empty where that is nothing well-formed.
	traceparent string
	instance    string

	address     netip.Addr // of the client; the zero address where there is none
	caller      auth.Caller
	account     admission.Account // whom the request is charged to
	params      map[string]string
	query       url.Values
	idempotency *api.Idempotency // nil where the request has no Idempotency-Key
	// prefer and ifNoneMatch are the headers of these names, as they came.
	prefer, ifNoneMatch []string
	began               time.Time
	body                request.Body
	// wait is how long the caller is ready to wait beyond the usual timeout.
	wait time.Duration

	// For the log line.
	code problem.Code
	err  error
}

func (c *call) principal() api.Principal { return c.caller.Principal }

// What malformed, unknown and foreign ids are all answered with.
var (
	errNoSuchID     = problem.New(problem.NotFound, "There is nothing here with this id, or the credential does not show it.")
	errNoSuchWorker = problem.New(problem.WorkerUnknown, "There is no such worker, or it is dead; register it again.")
)

// id gives the path's {id}, which must be a UUID, in lower case.
func (c *call) id() (string, error) {
	id, ok := request.UUID(c.params["id"])
	if !ok {
		return "", errNoSuchID
	}
	return id, nil
}

// queueName gives the path's {name}, which must be one that a queue can have.
func (c *call) queueName() (string, error) {
	name := c.params["name"]
	if !api.ValidName(name) {
		return "", errNoSuchID
	}
	return name, nil
}

// sign puts the request's own name into a problem.
func (c *call) sign(p *problem.Problem) *problem.Problem {
	signed := *p
	signed.Instance, signed.RequestID = c.instance, c.requestID
	if signed.Errors == nil {
		signed.Errors = []problem.FieldError{}
	}
	if signed.Policies == nil {
		signed.Policies = []problem.Policy{}
	}
	return &signed
}

// reply is a handler's answer.
type reply[T any] struct {
	// status is 200 if zero.
	status int
	value  T
	// location goes into the header of that name, where not empty.
	location string
	// replayed says that an Idempotency-Key's first answer is given again.
	replayed bool
	// etag names the value, quotes included, where not empty. With status 304 it
	// is all that is sent.
	etag string
	// applied goes into Preference-Applied, where not empty.
	applied string
}

// none is the request of a route that takes no body, or the value of a 204.
type none struct{}
