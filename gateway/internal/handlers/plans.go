package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// GetPlan reads a plan.
//
//	@Description A named set of limits; null means no limit.
//	@Success     200 {object} api.Plan "The plan."
func (h *Handlers) GetPlan(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.ByName(ctx, h.core, c, hop.GetPlan)
}

// ListPlans lists plans.
//
//	@Description All plans, ordered by name.
//	@Success     200 {object} api.Page[api.Plan] "A page of plans."
func (h *Handlers) ListPlans(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Paged(ctx, h.core, c, hop.ListPlans)
}

// PutPlan sets a plan.
//
//	@Description Creates the plan, or replaces it: an absent limit means no limit. It applies to all its tenants at this gateway at once, at other gateways within 30 s.
//	@Param       plan body api.PlanRequest true "The plan."
//	@Success     200 {object} api.Plan "The plan as it is now."
//	@x-example-small {"limits": {"requests_per_second": 50, "request_burst": 100, "jobs_per_second": 20, "job_burst": 200, "max_active": 10000, "user_max_active": 1000}, "visibility_timeout_ms_max": 3600000}
func (h *Handlers) PutPlan(ctx context.Context, c *call.Call, r api.PlanRequest) (call.Passed, error) {
	whose := hop.LimitsChanged{Plan: c.Params["name"]}
	h.auth.ForgetLimits(whose) // before as well as after: if the answer is lost, the change may still hold
	defer h.auth.ForgetLimits(whose)
	return call.Put(ctx, h.core, c, hop.PutPlan, r)
}
