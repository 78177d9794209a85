package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// getPlan reads a plan, which is a named set of limits.
//
//	@x-problems  ["not_found"]
//	@x-example-standard {"name": "standard"}
func (s *Server) getPlan(ctx context.Context, item hop.Item[hop.Name]) (api.Plan, error) {
	return s.Store.Tenants.GetPlan(ctx, item.Request.Name)
}

// listPlans lists plans, by name.
func (s *Server) listPlans(ctx context.Context, item hop.Item[hop.PageRequest]) (api.Page[api.Plan], error) {
	of := listingOf(hop.ListPlans.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return listed(s, of, byText, func(p api.Plan) string { return p.Name }, func(after string, limit int) ([]api.Plan, error) {
		return s.Store.Tenants.ListPlans(ctx, after, limit)
	})
}

// putPlan creates a plan, or replaces all of it. All gateways are notified.
//
//	@x-example-small {"name": "small", "value": {"limits": {"jobs_per_second": 20, "job_burst": 200, "max_active": 10000}}}
func (s *Server) putPlan(ctx context.Context, item hop.Item[hop.Put[api.PlanRequest]]) (api.Plan, error) {
	plan, err := s.Store.Tenants.PutPlan(ctx, item.Request.Name, item.Request.Value)
	if err == nil {
		s.limitsChanged(ctx, hop.LimitsChanged{Plan: plan.Name})
	}
	return plan, err
}
