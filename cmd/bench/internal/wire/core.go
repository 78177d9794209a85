package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

// coreEndpoint is core's internal API, called as a gateway calls it.
type coreEndpoint struct {
	base   *url.URL
	secret []byte
	shape  Shape
	tenant string
}

// NewCore is the endpoint of a core at a URL; tenant is the id of the tenant to act for, empty for none.
func NewCore(base *url.URL, secret, tenant string) Endpoint {
	return &coreEndpoint{base: base, secret: []byte(secret), tenant: tenant}
}

func (c *coreEndpoint) Use(shape Shape) { c.shape = shape }

func (c *coreEndpoint) address() *url.URL { return c.base }

func (c *coreEndpoint) LimitKeys(context.Context, *Caller, string, int) error {
	return errors.New("the keys of a queue are limited by the gateway")
}

func (c *coreEndpoint) Own() (Caller, bool) { return tenantCaller(c.tenant), c.tenant != "" }

// submit puts as many callers' requests in one call as there are callers given.
func (c *coreEndpoint) submit(to []byte, scratch *[]byte, who []Caller, ask Submit) []byte {
	body := (*scratch)[:0]
	body = append(body, `{"items":[`...)
	for i := range who {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(append(body, `{"principal":`...), who[i].principal...)
		body = appendIDs(append(body, `,"request":{"ids":`...), ask.Jobs)
		body = c.shape.appendJobs(append(body, `,"jobs":`...), ask.At, ask.Jobs)
		if ask.Batch {
			body = append(body, `,"batch":true`...)
		}
		if ask.Key != "" {
			// Core compares fingerprints and does not make them: any that is this key's will do.
			body = fmt.Appendf(body, `,"idempotency":{"operation":"POST /v1/jobs","key":"%s-%d","fingerprint":"%064x"}`, ask.Key, i, ask.At)
		}
		body = append(body, `}}`...)
	}
	body = append(body, `]}`...)
	*scratch = body
	return c.request(to, hop.SubmitJobs.Path, *scratch)
}

func (c *coreEndpoint) claim(to []byte, scratch *[]byte, who *Caller, ask Claim) []byte {
	*scratch = append(appendClaim(c.item(scratch, who), ask), `}]}`...)
	return c.request(to, hop.ClaimJobs.Path, *scratch)
}

func (c *coreEndpoint) complete(to []byte, scratch *[]byte, who *Caller, leases []Lease) []byte {
	*scratch = append(appendOutcomes(c.item(scratch, who), leases), `}]}`...)
	return c.request(to, hop.ReportOutcomes.Path, *scratch)
}

// item begins an envelope of one item, up to its request.
func (c *coreEndpoint) item(scratch *[]byte, who *Caller) []byte {
	body := (*scratch)[:0]
	body = append(body, `{"items":[{"principal":`...)
	return append(append(body, who.principal...), `,"request":`...)
}

func (c *coreEndpoint) request(to []byte, path string, body []byte) []byte {
	assertion := identity.Sign(c.secret, "POST", path, body, time.Now())
	return appendRequest(to, c.base, path, identity.Header+": "+assertion+"\r\n", body)
}

func (c *coreEndpoint) MakeCallers(ctx context.Context, n int, plan *api.PlanRequest) ([]Caller, error) {
	name := "unlimited"
	if plan != nil {
		name = planName
		if err := ask(ctx, c, hop.PutPlan.Path, []hop.Put[api.PlanRequest]{{Name: name, Value: *plan}}); err != nil {
			return nil, fmt.Errorf("the plan of the tenants: %w", err)
		}
	}
	made := make([]Caller, 0, n)
	for len(made) < n {
		requests := make([]hop.WithID[api.TenantRequest], min(n-len(made), hop.MaxItems/10))
		for i := range requests {
			id, err := uuid.NewV7()
			if err != nil {
				return nil, err
			}
			requests[i] = hop.WithID[api.TenantRequest]{ID: id.String(), Value: api.TenantRequest{Name: "bench", Plan: &name}}
			made = append(made, tenantCaller(id.String()))
		}
		if err := ask(ctx, c, hop.CreateTenant.Path, requests); err != nil {
			return nil, fmt.Errorf("tenants: %w", err)
		}
	}
	return made, nil
}

func (c *coreEndpoint) Platform(context.Context) (Caller, func(), error) {
	return principalCaller(hop.Principal{Kind: hop.PrincipalPlatform, Scopes: []string{api.ScopeWork}}), func() {}, nil
}

func tenantCaller(id string) Caller {
	return principalCaller(hop.Principal{Kind: hop.PrincipalTenant, Tenant: id, Scopes: api.Scopes()})
}

func principalCaller(principal hop.Principal) Caller {
	text, _ := json.Marshal(principal) // texts alone
	return Caller{principal: text}
}

// ask makes one call to core as the operator; every item must succeed.
func ask[Req any](ctx context.Context, c *coreEndpoint, path string, requests []Req) error {
	envelope := hop.Envelope[Req]{}
	for _, request := range requests {
		envelope.Items = append(envelope.Items, hop.Item[Req]{Principal: hop.Principal{Kind: hop.PrincipalOperator}, Request: request})
	}
	body, err := json.Marshal(envelope)
	if err != nil {
		return err
	}
	connection := &conn{base: c.base}
	defer connection.close()
	answer, err := connection.exchange(ctx, c.request(nil, path, body), 0)
	if err != nil {
		return err
	}
	if answer.status != http.StatusOK {
		return refusal(answer)
	}
	if byCode, _ := problems(answer.body); len(byCode) > 0 {
		return refusal(answer)
	}
	return nil
}

// refusal is the error of an answer without success.
func refusal(answer reply) error {
	byCode, example := problems(answer.body)
	if len(byCode) == 0 {
		return fmt.Errorf("status %d", answer.status)
	}
	if byCode[string(problem.AssertionExpired)] > 0 && answer.header.Get(identity.TimeHeader) != "" {
		return errors.New("core's clock and this machine's differ too much for signed calls")
	}
	for code := range byCode {
		return fmt.Errorf("%s: %s", code, example)
	}
	return nil
}
