package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// GetPlan reads a plan.
//
//	@Description A named set of limits; null means no limit.
//	@Success     200 {object} api.Plan "The plan."
func (h *Handlers) GetPlan(ctx context.Context, c *Call, _ None) (Response[api.Plan], error) {
	return byName(ctx, h, c, hop.GetPlan)
}

// ListPlans lists plans.
//
//	@Description All plans, ordered by name.
//	@Success     200 {object} api.Page[api.Plan] "A page of plans."
func (h *Handlers) ListPlans(ctx context.Context, c *Call, _ None) (Response[api.Page[api.Plan]], error) {
	return paged(ctx, h, c, hop.ListPlans)
}

// PutPlan sets a plan.
//
//	@Description Creates the plan, or replaces it: an absent limit means no limit. It applies to all its tenants at this gateway at once, at other gateways within 30 s.
//	@Param       plan body api.PlanRequest true "The plan."
//	@Success     200 {object} api.Plan "The plan as it is now."
//	@x-example-small {"limits": {"requests_per_second": 50, "request_burst": 100, "jobs_per_second": 20, "job_burst": 200, "max_active": 10000, "user_max_active": 1000}, "visibility_timeout_ms_max": 3600000}
func (h *Handlers) PutPlan(ctx context.Context, c *Call, r api.PlanRequest) (Response[api.Plan], error) {
	name, err := c.name()
	if err != nil {
		return Response[api.Plan]{}, err
	}
	if fields := r.Validate(); len(fields) > 0 {
		return Response[api.Plan]{}, problem.Invalid(fields...)
	}
	whose := hop.LimitsChanged{Plan: name}
	h.auth.ForgetLimits(whose) // before as well as after: if the answer is lost, the change may still hold
	answer, err := send(ctx, h, c, hop.PutPlan,
		hop.Put[api.PlanRequest]{Name: name, Value: r})
	h.auth.ForgetLimits(whose)
	return answer, err
}
