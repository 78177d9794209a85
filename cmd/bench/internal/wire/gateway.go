package wire

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// gatewayEndpoint is the public API.
type gatewayEndpoint struct {
	base  *url.URL
	keys  Keys
	shape Shape
}

// NewGateway is the endpoint of a gateway at a URL.
func NewGateway(base *url.URL, own Keys) Endpoint { return &gatewayEndpoint{base: base, keys: own} }

// Keys are the API key and the operator key of the environment; empty if unset.
type Keys struct{ API, Operator string }

const (
	// keyLife is how long keys made here are valid. They are useless after the run.
	keyLife = 24 * time.Hour
	// makers is how many tenants are created at a time.
	makers = 8
)

var errNoOperator = errors.New("this makes tenants: set FORGEQUEUE_OPERATOR_KEY, or run it with --up or --core")

func (g *gatewayEndpoint) Use(shape Shape) { g.shape = shape }

func (g *gatewayEndpoint) address() *url.URL { return g.base }

func (g *gatewayEndpoint) Own() (Caller, bool) { return Caller{bearer: g.keys.API}, g.keys.API != "" }

func (g *gatewayEndpoint) submit(to []byte, scratch *[]byte, who []Caller, ask Submit) []byte {
	path, body := "/v1/jobs", (*scratch)[:0]
	if ask.Batch {
		path = "/v1/jobs/batch"
		body = append(g.shape.appendJobs(append(body, `{"jobs":`...), ask.At, ask.Jobs), '}')
	} else {
		body = g.shape.appendJob(body, ask.At)
	}
	*scratch = body
	extra := ""
	if ask.Key != "" {
		extra = "Idempotency-Key: " + ask.Key + "\r\n"
	}
	return g.request(to, path, who[0].bearer, extra, body)
}

func (g *gatewayEndpoint) claim(to []byte, scratch *[]byte, who *Caller, ask Claim) []byte {
	*scratch = appendClaim((*scratch)[:0], ask)
	return g.request(to, "/v1/claims", who.bearer, "", *scratch)
}

func (g *gatewayEndpoint) complete(to []byte, scratch *[]byte, who *Caller, leases []Lease) []byte {
	*scratch = appendOutcomes((*scratch)[:0], leases)
	return g.request(to, "/v1/outcomes", who.bearer, "", *scratch)
}

func (g *gatewayEndpoint) request(to []byte, path, bearer, extra string, body []byte) []byte {
	return appendRequest(to, g.base, path, "Authorization: Bearer "+bearer+"\r\n"+extra, body)
}

func (g *gatewayEndpoint) operator() (*client.Client, error) {
	if g.keys.Operator == "" {
		return nil, errNoOperator
	}
	return client.New(client.Options{URL: g.base.String(), APIKey: g.keys.Operator, Concurrency: makers})
}

func (g *gatewayEndpoint) MakeCallers(ctx context.Context, n int, plan *api.PlanRequest) ([]Caller, error) {
	operator, err := g.operator()
	if err != nil {
		return nil, err
	}
	defer operator.CloseIdleConnections()
	name := "unlimited"
	if plan != nil {
		name = planName
		if _, err := operator.PutPlan(ctx, name, *plan); err != nil {
			return nil, fmt.Errorf("the plan of the tenants: %w", err)
		}
	}
	made := make([]Caller, n)
	errs := make([]error, makers)
	var next atomic.Int64
	var group sync.WaitGroup
	for maker := range makers {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && errs[maker] == nil; i = next.Add(1) - 1 {
				made[i].bearer, errs[maker] = makeTenant(ctx, operator, name)
			}
		})
	}
	group.Wait()
	return made, errors.Join(errs...)
}

func makeTenant(ctx context.Context, operator *client.Client, plan string) (key string, err error) {
	tenant, err := operator.CreateTenant(ctx, api.TenantRequest{Name: "bench", Plan: &plan})
	if err != nil {
		return "", err
	}
	expires := api.At(time.Now().Add(keyLife))
	made, err := operator.CreateKey(ctx, tenant.ID, api.KeyRequest{Scopes: api.Scopes(), ExpiresAt: &expires})
	return made.Secret, err
}

func (g *gatewayEndpoint) LimitKeys(ctx context.Context, who *Caller, queue string, most int) error {
	c, err := client.New(client.Options{URL: g.base.String(), APIKey: who.bearer})
	if err != nil {
		return err
	}
	defer c.CloseIdleConnections()
	limit := int64(most)
	_, err = c.PutQueue(ctx, queue, api.QueueRequest{Keys: &api.KeySettingsRequest{MaxRunning: &limit}})
	return err
}

func (g *gatewayEndpoint) Platform(ctx context.Context) (Caller, func(), error) {
	operator, err := g.operator()
	if err != nil {
		return Caller{}, nil, err
	}
	expires := api.At(time.Now().Add(keyLife))
	made, err := operator.CreatePlatformKey(ctx, api.PlatformKeyRequest{ExpiresAt: &expires})
	if err != nil {
		operator.CloseIdleConnections()
		return Caller{}, nil, err
	}
	end := func() {
		// The run may have been cancelled. If this fails, the key expires by itself.
		_ = operator.RevokeKey(context.WithoutCancel(ctx), made.KeyID)
		operator.CloseIdleConnections()
	}
	return Caller{bearer: made.Secret}, end, nil
}
