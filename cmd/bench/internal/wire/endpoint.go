package wire

import (
	"context"
	"net/url"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Caller is on whose behalf requests are made.
type Caller struct {
	// bearer is the API key, for the gateway.
	bearer string
	// principal is the caller as JSON, for core.
	principal []byte
}

// APIKey is the caller's key for the gateway; empty past it.
func (c *Caller) APIKey() string { return c.bearer }

// Submit is one request to submit jobs.
type Submit struct {
	Jobs int
	// Batch asks for the batch route, even for one job.
	Batch bool
	// At is when the request was meant to start, since the run began.
	At time.Duration
	// Key is an Idempotency-Key; empty sends none. For core fingerprint goes with it.
	Key string
}

// Claim is one request to claim jobs.
type Claim struct {
	Worker, Queue string
	Max           int
	Wait          time.Duration
}

// Endpoint is an API that takes the load. It writes whole HTTP requests: to, grown, with scratch as the buffer
// for the body.
type Endpoint interface {
	submit(to []byte, scratch *[]byte, who []Caller, ask Submit) []byte
	claim(to []byte, scratch *[]byte, who *Caller, ask Claim) []byte
	complete(to []byte, scratch *[]byte, who *Caller, leases []Lease) []byte
	// MakeCallers creates n tenants under a plan (nil: unlimited) and returns a caller for each.
	MakeCallers(ctx context.Context, n int, plan *api.PlanRequest) ([]Caller, error)
	// Platform returns a caller that claims from all tenants' queues, and a function that revokes its key.
	Platform(ctx context.Context) (Caller, func(), error)
	// LimitKeys sets how many jobs of a key of the caller's queue run at once.
	LimitKeys(ctx context.Context, who *Caller, queue string, most int) error
	// Own is the caller that the settings name; false if they name none.
	Own() (Caller, bool)
	// Use sets the shape of all further jobs. It must not run while requests are written.
	Use(shape Shape)
	address() *url.URL
}

// planName is the plan of tenants made here: one for all runs, since a plan cannot be deleted.
const planName = "bench"

// AllLimits is a plan with every limit set, each too high to be reached: a run measures what checking
// limits costs.
func AllLimits() *api.PlanRequest {
	rate, count := 1e6, int64(1e7)
	var plan api.PlanRequest
	for _, limit := range plan.Limits.All() {
		if limit.Rate != nil {
			*limit.Rate = &rate
		} else {
			*limit.Count = &count
		}
	}
	return &plan
}
