package bench

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/identity"
)

// caller is on whose behalf requests are made.
type caller struct {
	// bearer is the API key, for the gateway.
	bearer string
	// principal is the caller as JSON, for core.
	principal []byte
}

// submitAsk is one request to submit jobs.
type submitAsk struct {
	jobs int
	// batch asks for the batch route, even for one job.
	batch bool
	// at is when the request was meant to start, since the run began.
	at time.Duration
	// key is an Idempotency-Key; empty sends none. For core fingerprint goes with it.
	key string
}

// claimAsk is one request to claim jobs.
type claimAsk struct {
	worker, queue string
	max           int
	wait          time.Duration
}

// endpoint is where the load goes in: it writes whole HTTP requests.
type endpoint interface {
	submit(to []byte, scratch *[]byte, who []caller, ask submitAsk) []byte
	claim(to []byte, scratch *[]byte, who *caller, ask claimAsk) []byte
	complete(to []byte, scratch *[]byte, who *caller, leases []lease) []byte
	// makeCallers makes so many tenants under a plan and gives a caller for each.
	makeCallers(ctx context.Context, n int, plan *api.PlanRequest) ([]caller, error)
	// platform gives a caller that claims from all tenants' queues, and its end.
	platform(ctx context.Context) (caller, func(), error)
	// own is the caller that the settings name; false where they name none.
	own() (caller, bool)
	// use makes all jobs from now on in a shape; not while requests are written.
	use(shape shape)
	address() *url.URL
}

// gatewayEndpoint is the public API.
type gatewayEndpoint struct {
	base  *url.URL
	keys  keys
	shape shape
}

// keys are what the environment says; empty where it says nothing.
type keys struct{ api, operator, hopSecret string }

func (g *gatewayEndpoint) use(shape shape) { g.shape = shape }

func (g *gatewayEndpoint) address() *url.URL { return g.base }

func (g *gatewayEndpoint) own() (caller, bool) { return caller{bearer: g.keys.api}, g.keys.api != "" }

func (g *gatewayEndpoint) submit(to []byte, scratch *[]byte, who []caller, ask submitAsk) []byte {
	path, body := "/v1/jobs", (*scratch)[:0]
	if ask.batch {
		path = "/v1/jobs/batch"
		body = append(g.shape.appendJobs(append(body, `{"jobs":`...), ask.at, ask.jobs), '}')
	} else {
		body = g.shape.appendJob(body, ask.at)
	}
	*scratch = body
	extra := ""
	if ask.key != "" {
		extra = "Idempotency-Key: " + ask.key + "\r\n"
	}
	return g.request(to, path, who[0].bearer, extra, body)
}

func (g *gatewayEndpoint) claim(to []byte, scratch *[]byte, who *caller, ask claimAsk) []byte {
	*scratch = appendClaim((*scratch)[:0], ask)
	return g.request(to, "/v1/claims", who.bearer, "", *scratch)
}

func (g *gatewayEndpoint) complete(to []byte, scratch *[]byte, who *caller, leases []lease) []byte {
	*scratch = appendOutcomes((*scratch)[:0], leases)
	return g.request(to, "/v1/outcomes", who.bearer, "", *scratch)
}

func (g *gatewayEndpoint) request(to []byte, path, bearer, extra string, body []byte) []byte {
	return appendRequest(to, g.base, path, "Authorization: Bearer "+bearer+"\r\n"+extra, body)
}

// coreEndpoint is core's internal API, called as a gateway calls it.
type coreEndpoint struct {
	base   *url.URL
	secret []byte
	shape  shape
	tenant string
}

func (c *coreEndpoint) use(shape shape) { c.shape = shape }

func (c *coreEndpoint) address() *url.URL { return c.base }

func (c *coreEndpoint) own() (caller, bool) { return tenantCaller(c.tenant), c.tenant != "" }

// submit puts as many callers' requests in one call as there are callers given.
func (c *coreEndpoint) submit(to []byte, scratch *[]byte, who []caller, ask submitAsk) []byte {
	body := (*scratch)[:0]
	body = append(body, `{"items":[`...)
	for i := range who {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(body, `{"principal":`...), who[i].principal...)
		body = appendIDs(append(body, `,"request":{"ids":`...), ask.jobs)
		body = c.shape.appendJobs(append(body, `,"jobs":`...), ask.at, ask.jobs)
		if ask.batch {
			body = append(body, `,"batch":true`...)
		}
		if ask.key != "" {
			// Core compares fingerprints and does not make them: any that is this key's will do.
			body = fmt.Appendf(body, `,"idempotency":{"operation":"POST /v1/jobs","key":"%s-%d","fingerprint":"%064x"}`, ask.key, i, ask.at)
		}
		body = append(body, `}}`...)
	}
	body = append(body, `]}`...)
	*scratch = body
	return c.request(to, api.HopSubmit, *scratch)
}

func (c *coreEndpoint) claim(to []byte, scratch *[]byte, who *caller, ask claimAsk) []byte {
	*scratch = append(appendClaim(c.item(scratch, who), ask), `}]}`...)
	return c.request(to, api.HopClaim, *scratch)
}

func (c *coreEndpoint) complete(to []byte, scratch *[]byte, who *caller, leases []lease) []byte {
	*scratch = append(appendOutcomes(c.item(scratch, who), leases), `}]}`...)
	return c.request(to, api.HopOutcome, *scratch)
}

// item begins an envelope of one item, up to its request.
func (c *coreEndpoint) item(scratch *[]byte, who *caller) []byte {
	body := (*scratch)[:0]
	body = append(body, `{"items":[{"principal":`...)
	return append(append(body, who.principal...), `,"request":`...)
}

func (c *coreEndpoint) request(to []byte, path string, body []byte) []byte {
	assertion := identity.Sign(c.secret, "POST", path, body, time.Now())
	return appendRequest(to, c.base, path, identity.Header+": "+assertion+"\r\n", body)
}

func appendRequest(to []byte, base *url.URL, path, headers string, body []byte) []byte {
	to = append(append(append(to, "POST "...), base.Path...), path...)
	to = append(append(append(to, " HTTP/1.1\r\nHost: "...), base.Host...), "\r\nContent-Type: application/json\r\n"...)
	to = strconv.AppendInt(append(append(to, headers...), "Content-Length: "...), int64(len(body)), 10)
	return append(append(to, "\r\n\r\n"...), body...)
}
