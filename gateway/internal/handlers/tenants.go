package handlers

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// CreateTenant creates a tenant.
//
//	@Description The defaults are the plan `standard` and weight 1.
//	@Param       tenant body api.TenantRequest true "The tenant."
//	@Success     201 {object} api.Tenant "The tenant."
//	@x-example-tenant {"name": "Example Ltd", "plan": "standard", "weight": 2}
func (h *Handlers) CreateTenant(ctx context.Context, c *call.Call, r api.TenantRequest) (call.Response[api.Tenant], error) {
	if fields := r.Validate(); len(fields) > 0 {
		return call.Response[api.Tenant]{}, problem.Invalid(fields...)
	}
	ids, err := drawIDs(1)
	if err != nil {
		return call.Response[api.Tenant]{}, err
	}
	answer, err := call.Send(ctx, h.core, c, hop.CreateTenant,
		hop.WithID[api.TenantRequest]{ID: ids[0], Value: r})
	answer.Status = http.StatusCreated
	return answer, err
}

// ListTenants lists tenants.
//
//	@Description All tenants, newest first.
//	@Success     200 {object} api.Page[api.Tenant] "A page of tenants."
func (h *Handlers) ListTenants(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Paged(ctx, h.core, c, hop.ListTenants)
}

// PatchTenant changes a tenant.
//
//	@Description Absent fields do not change. `overrides`, if given, replaces all overrides: they replace single limits of the plan, for the tenant and by user. New limits apply at this gateway at once, at other gateways within 30 s.
//	@Param       tenant body api.TenantPatch true "The fields to change."
//	@Success     200 {object} api.Tenant "The tenant as it is now."
//	@x-example-overrides {"overrides": {"jobs_per_second": 100, "max_active": 10000, "users": {"bob": {"max_active": 10}}}}
//	@x-example-weight    {"weight": 5}
func (h *Handlers) PatchTenant(ctx context.Context, c *call.Call, r api.TenantPatch) (call.Response[api.Tenant], error) {
	id, err := c.ID()
	if err != nil {
		return call.Response[api.Tenant]{}, err
	}
	if fields := r.Validate(); len(fields) > 0 {
		return call.Response[api.Tenant]{}, problem.Invalid(fields...)
	}
	whose := hop.LimitsChanged{Tenant: id}
	h.auth.ForgetLimits(whose) // before as well as after: if the answer is lost, the change may still hold
	answer, err := call.Send(ctx, h.core, c, hop.PatchTenant,
		hop.WithID[api.TenantPatch]{ID: id, Value: r})
	h.auth.ForgetLimits(whose)
	return answer, err
}

// GetTenant reads a tenant.
//
//	@Description `deletion` is null, or the progress of the tenant's deletion: `done` when all of its data is deleted. A deleted tenant can still be read here, but is not listed.
//	@Success     200 {object} api.Tenant "The tenant."
func (h *Handlers) GetTenant(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.ByID(ctx, h.core, c, hop.GetTenant)
}

// DeleteTenant deletes a tenant.
//
//	@Description Revokes the tenant's keys at once, refuses its submits, stops its schedules, and stops claims and pushes of its jobs; the leases of running jobs are lost. Then its data is deleted in batches; `GET` shows the progress as `deletion`. This takes at least two minutes and cannot be undone. A repeat changes nothing.
//	@Description
//	@Description Audit entries are kept for their retention, and so are failed attempts of jobs that were already deleted.
//	@Success     202 {object} api.Tenant "The deletion has started, or is done."
func (h *Handlers) DeleteTenant(ctx context.Context, c *call.Call, _ call.None) (call.Response[api.Tenant], error) {
	id, err := c.ID()
	if err != nil {
		return call.Response[api.Tenant]{}, err
	}
	whose := hop.LimitsChanged{Tenant: id}
	h.auth.ForgetLimits(whose) // before as well as after: if the answer is lost, the deletion may still have begun
	answer, err := call.Send(ctx, h.core, c, hop.DeleteTenant, hop.ID{ID: id})
	h.auth.ForgetLimits(whose)
	answer.Status = http.StatusAccepted
	return answer, err
}
