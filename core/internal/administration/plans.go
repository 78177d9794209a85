package administration

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// GetPlan reads a plan, which is a named set of limits.
//
//	@x-problems  ["not_found"]
//	@x-example-standard {"name": "standard"}
func (a *Administration) GetPlan(ctx context.Context, item hop.Item[hop.Name]) (api.Plan, error) {
	return a.Store.Tenants.GetPlan(ctx, item.Request.Name)
}

// ListPlans lists plans, by name.
func (a *Administration) ListPlans(ctx context.Context, item hop.Item[hop.PageRequest]) (api.Page[api.Plan], error) {
	of := pages.ListingOf(hop.ListPlans.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return pages.Listed(a.Pages, of, pages.ByText, func(p api.Plan) string { return p.Name }, func(after string, limit int) ([]api.Plan, error) {
		return a.Store.Tenants.ListPlans(ctx, after, limit)
	})
}

// PutPlan creates a plan, or replaces all of it. All gateways are notified.
//
//	@x-example-small {"name": "small", "value": {"limits": {"jobs_per_second": 20, "job_burst": 200, "max_active": 10000}}}
func (a *Administration) PutPlan(ctx context.Context, item hop.Item[hop.Put[api.PlanRequest]]) (api.Plan, error) {
	plan, err := a.Store.Tenants.PutPlan(ctx, item.Request.Name, item.Request.Value)
	if err == nil {
		a.limitsChanged(ctx, hop.LimitsChanged{Plan: plan.Name})
	}
	return plan, err
}
