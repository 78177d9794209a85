package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/api"
)

// getPlan reads a plan.
//
//	@Summary     Read a plan
//	@Description A named set of limits.
//	@ID          planGets
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopPlanGetRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Plan] "An answer for each item."
//	@x-access    "operator"
//	@x-problems  ["not_found"]
//	@x-example-standard {"name": "standard"}
//	@Router      /internal/v1/plan-gets [post]
func (s *Server) getPlan(ctx context.Context, item api.Item[api.HopPlanGetRequest]) (api.Plan, error) {
	return s.Store.GetPlan(ctx, item.Request.Name)
}

// listPlans lists plans.
//
//	@Summary     List plans
//	@Description Ordered by name.
//	@ID          planLists
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopPageRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Plan]] "An answer for each item."
//	@x-access    "operator"
//	@x-example-first {"page_size": 50}
//	@Router      /internal/v1/plan-lists [post]
func (s *Server) listPlans(ctx context.Context, item api.Item[api.HopPageRequest]) (api.Page[api.Plan], error) {
	of := listingOf(api.HopPlanList, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return listed(s, of, byText, func(p api.Plan) string { return p.Name }, func(after string, limit int) ([]api.Plan, error) {
		return s.Store.ListPlans(ctx, after, limit)
	})
}

// putPlan makes a plan, or replaces it.
//
//	@Summary     Set a plan
//	@Description Makes it, or replaces all of it. All gateways are notified.
//	@ID          planPuts
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopPlanPutRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Plan] "An answer for each item."
//	@x-access    "operator"
//	@x-example-small {"name": "small", "limits": {"jobs_per_second": 20, "job_burst": 200, "max_active": 10000}}
//	@Router      /internal/v1/plan-puts [post]
func (s *Server) putPlan(ctx context.Context, item api.Item[api.HopPlanPutRequest]) (api.Plan, error) {
	plan, err := s.Store.PutPlan(ctx, item.Request.Name, item.Request.PlanRequest)
	if err == nil {
		s.limitsChanged(ctx, api.LimitsChanged{Plan: plan.Name})
	}
	return plan, err
}
