package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/hop"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// GetPlan answers GET /v1/admin/plans/{name} with the plan.
//
//	@Summary     Read a plan
//	@Description A named set of limits; null means no limit.
//	@ID          getPlan
//	@Tags        Admin
//	@Param       name path string true "The plan's name."
//	@Success     200 {object} api.Plan "The plan."
//	@x-access    "operator"
//	@Router      /v1/admin/plans/{name} [get]
func (h *Handlers) GetPlan(ctx context.Context, c *Call, _ None) (Response[api.Plan], error) {
	name, err := c.name()
	if err != nil {
		return Response[api.Plan]{}, err
	}
	return send(ctx, h, c, hop.GetPlan, hop.Name{Name: name})
}

// ListPlans answers GET /v1/admin/plans with a page, by name.
//
//	@Summary     List plans
//	@Description All plans, ordered by name.
//	@ID          listPlans
//	@Tags        Admin
//	@Param       page_size  query int    false "Maximum number of items."
//	@Param       page_token query string false "`next_page_token` of the previous page."
//	@Success     200 {object} api.Page[api.Plan] "A page of plans."
//	@x-access    "operator"
//	@Router      /v1/admin/plans [get]
func (h *Handlers) ListPlans(ctx context.Context, c *Call, _ None) (Response[api.Page[api.Plan]], error) {
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return Response[api.Page[api.Plan]]{}, err
	}
	return send(ctx, h, c, hop.ListPlans, page)
}

// PutPlan answers PUT /v1/admin/plans/{name}: makes the plan, or replaces all of
// it. A repeat changes nothing. Its limits hold here at once, at other gateways
// when the hint reaches them, 30 s at the latest.
//
//	@Summary     Set a plan
//	@Description Creates the plan, or replaces it: an absent limit means no limit. It applies to all its tenants at this gateway at once, at other gateways within 30 s.
//	@ID          putPlan
//	@Tags        Admin
//	@Param       name path string          true "The plan's name."
//	@Param       plan body api.PlanRequest true "The plan."
//	@Success     200 {object} api.Plan "The plan as it is now."
//	@x-access    "operator"
//	@x-example-small {"limits": {"requests_per_second": 50, "request_burst": 100, "jobs_per_second": 20, "job_burst": 200, "max_active": 10000, "user_max_active": 1000}, "visibility_timeout_ms_max": 3600000}
//	@Router      /v1/admin/plans/{name} [put]
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
