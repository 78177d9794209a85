package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/identity"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	// planName is the plan of tenants made here: one for all runs, since plans stay.
	planName = "bench"
	// keyLife is how long keys made here are good for: nobody has them afterwards.
	keyLife = 24 * time.Hour
	// makers is how many tenants are made at a time.
	makers = 8
)

var errNoOperator = errors.New("this makes tenants: set FORGEQUEUE_OPERATOR_KEY, or run it with --up or --core")

// allLimits is a plan with every limit on, and none of them reached: what limits
// cost, and not what they refuse.
func allLimits() *api.PlanRequest {
	rate, count := 1e6, int64(1e7)
	var plan api.PlanRequest
	for _, r := range []**float64{
		&plan.Limits.RequestsPerSecond, &plan.Limits.JobsPerSecond, &plan.Limits.UserRequestsPerSecond, &plan.Limits.UserJobsPerSecond,
	} {
		*r = &rate
	}
	for _, c := range []**int64{
		&plan.Limits.RequestBurst, &plan.Limits.JobBurst, &plan.Limits.MaxActive, &plan.Limits.MaxRunning,
		&plan.Limits.UserRequestBurst, &plan.Limits.UserJobBurst, &plan.Limits.UserMaxActive, &plan.Limits.UserMaxRunning,
	} {
		*c = &count
	}
	return &plan
}

func (g *gatewayEndpoint) operator() (*client.Client, error) {
	if g.keys.operator == "" {
		return nil, errNoOperator
	}
	return client.New(client.Options{URL: g.base.String(), APIKey: g.keys.operator, Concurrency: makers})
}

func (g *gatewayEndpoint) makeCallers(ctx context.Context, n int, plan *api.PlanRequest) ([]caller, error) {
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
	made := make([]caller, n)
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

func (g *gatewayEndpoint) platform(ctx context.Context) (caller, func(), error) {
	operator, err := g.operator()
	if err != nil {
		return caller{}, nil, err
	}
	expires := api.At(time.Now().Add(keyLife))
	made, err := operator.CreatePlatformKey(ctx, api.PlatformKeyRequest{ExpiresAt: &expires})
	if err != nil {
		operator.CloseIdleConnections()
		return caller{}, nil, err
	}
	end := func() {
		// The run may have been ended; a key that stays has an end of its own.
		_ = operator.RevokeKey(context.WithoutCancel(ctx), made.KeyID)
		operator.CloseIdleConnections()
	}
	return caller{bearer: made.Secret}, end, nil
}

func tenantCaller(id string) caller {
	return principalCaller(api.Principal{Kind: api.PrincipalTenant, Tenant: id, Scopes: api.Scopes()})
}

func principalCaller(principal api.Principal) caller {
	text, _ := json.Marshal(principal) // texts alone
	return caller{principal: text}
}

func (c *coreEndpoint) platform(context.Context) (caller, func(), error) {
	return principalCaller(api.Principal{Kind: api.PrincipalPlatform, Scopes: []string{api.ScopeWork}}), func() {}, nil
}

func (c *coreEndpoint) makeCallers(ctx context.Context, n int, plan *api.PlanRequest) ([]caller, error) {
	name := "unlimited"
	if plan != nil {
		name = planName
		if err := ask(ctx, c, api.HopPlanPut, []api.HopPlanPutRequest{{Name: name, PlanRequest: *plan}}); err != nil {
			return nil, fmt.Errorf("the plan of the tenants: %w", err)
		}
	}
	made := make([]caller, 0, n)
	for len(made) < n {
		requests := make([]api.HopTenantCreateRequest, min(n-len(made), api.MaxHopItems/10))
		for i := range requests {
			id, err := uuid.NewV7()
			if err != nil {
				return nil, err
			}
			requests[i] = api.HopTenantCreateRequest{ID: id.String(), TenantRequest: api.TenantRequest{Name: "bench", Plan: &name}}
			made = append(made, tenantCaller(id.String()))
		}
		if err := ask(ctx, c, api.HopTenantCreate, requests); err != nil {
			return nil, fmt.Errorf("tenants: %w", err)
		}
	}
	return made, nil
}

// ask makes one call to core as the operator; every item must succeed.
func ask[Req any](ctx context.Context, c *coreEndpoint, path string, requests []Req) error {
	envelope := api.Envelope[Req]{}
	for _, request := range requests {
		envelope.Items = append(envelope.Items, api.Item[Req]{Principal: api.Principal{Kind: api.PrincipalOperator}, Request: request})
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

// refusal is an answer that is no success, in words.
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
