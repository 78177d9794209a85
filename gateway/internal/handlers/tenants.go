package handlers

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/hop"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// CreateTenant answers POST /v1/admin/tenants: 201 with the tenant.
//
//	@Summary     Create a tenant
//	@Description The defaults are the plan `standard` and weight 1.
//	@ID          createTenant
//	@Tags        Admin
//	@Param       tenant body api.TenantRequest true "The tenant."
//	@Success     201 {object} api.Tenant "The tenant."
//	@x-access    "operator"
//	@x-example-tenant {"name": "Example Ltd", "plan": "standard", "weight": 2}
//	@Router      /v1/admin/tenants [post]
func (h *Handlers) CreateTenant(ctx context.Context, c *Call, r api.TenantRequest) (Response[api.Tenant], error) {
	if fields := r.Validate(); len(fields) > 0 {
		return Response[api.Tenant]{}, problem.Invalid(fields...)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Response[api.Tenant]{}, fmt.Errorf("draw a tenant id: %w", err)
	}
	answer, err := send(ctx, h, c, hop.CreateTenant,
		hop.WithID[api.TenantRequest]{ID: id.String(), Value: r})
	answer.Status = http.StatusCreated
	return answer, err
}

// ListTenants answers GET /v1/admin/tenants with a page, newest first.
//
//	@Summary     List tenants
//	@Description All tenants, newest first.
//	@ID          listTenants
//	@Tags        Admin
//	@Param       page_size  query int    false "Maximum number of items."
//	@Param       page_token query string false "`next_page_token` of the previous page."
//	@Success     200 {object} api.Page[api.Tenant] "A page of tenants."
//	@x-access    "operator"
//	@Router      /v1/admin/tenants [get]
func (h *Handlers) ListTenants(ctx context.Context, c *Call, _ None) (Response[api.Page[api.Tenant]], error) {
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return Response[api.Page[api.Tenant]]{}, err
	}
	return send(ctx, h, c, hop.ListTenants, page)
}

// PatchTenant answers PATCH /v1/admin/tenants/{id}: what is absent stays, and
// overrides, where given, replace all overrides. The limits hold here at once, at
// other gateways when the hint reaches them, 30 s at the latest.
//
//	@Summary     Change a tenant
//	@Description Absent fields do not change. `overrides`, if given, replaces all overrides: they replace single limits of the plan, for the tenant and by user. New limits apply at this gateway at once, at other gateways within 30 s.
//	@ID          patchTenant
//	@Tags        Admin
//	@Param       id     path string          true "The tenant's id." Format(uuid)
//	@Param       tenant body api.TenantPatch true "The fields to change."
//	@Success     200 {object} api.Tenant "The tenant as it is now."
//	@x-access    "operator"
//	@x-example-overrides {"overrides": {"jobs_per_second": 100, "max_active": 10000, "users": {"bob": {"max_active": 10}}}}
//	@x-example-weight    {"weight": 5}
//	@Router      /v1/admin/tenants/{id} [patch]
func (h *Handlers) PatchTenant(ctx context.Context, c *Call, r api.TenantPatch) (Response[api.Tenant], error) {
	id, err := c.id()
	if err != nil {
		return Response[api.Tenant]{}, err
	}
	if fields := r.Validate(); len(fields) > 0 {
		return Response[api.Tenant]{}, problem.Invalid(fields...)
	}
	whose := hop.LimitsChanged{Tenant: id}
	h.auth.ForgetLimits(whose) // before as well as after: if the answer is lost, the change may still hold
	answer, err := send(ctx, h, c, hop.PatchTenant,
		hop.WithID[api.TenantPatch]{ID: id, Value: r})
	h.auth.ForgetLimits(whose)
	return answer, err
}

// GetTenant answers GET /v1/admin/tenants/{id}, for a deleted tenant too.
//
//	@Summary     Read a tenant
//	@Description `deletion` is null, or the progress of the tenant's deletion: `done` when all of its data is deleted. A deleted tenant can still be read here, but is not listed.
//	@ID          getTenant
//	@Tags        Admin
//	@Param       id path string true "The tenant's id." Format(uuid)
//	@Success     200 {object} api.Tenant "The tenant."
//	@x-access    "operator"
//	@Router      /v1/admin/tenants/{id} [get]
func (h *Handlers) GetTenant(ctx context.Context, c *Call, _ None) (Response[api.Tenant], error) {
	id, err := c.id()
	if err != nil {
		return Response[api.Tenant]{}, err
	}
	return send(ctx, h, c, hop.GetTenant, hop.ID{ID: id})
}

// DeleteTenant answers DELETE /v1/admin/tenants/{id}: 202 with the tenant, whose keys are
// no longer good, and whose data is being removed. A repeat changes nothing.
//
//	@Summary     Delete a tenant
//	@Description Revokes the tenant's keys at once, refuses its submits, stops its schedules, and stops claims and pushes of its jobs; the leases of running jobs are lost. Then its data is deleted in batches; `GET` shows the progress as `deletion`. This takes at least two minutes and cannot be undone. A repeat changes nothing.
//	@Description
//	@Description Audit entries are kept for their retention, and so are failed attempts of jobs that were already deleted.
//	@ID          deleteTenant
//	@Tags        Admin
//	@Param       id path string true "The tenant's id." Format(uuid)
//	@Success     202 {object} api.Tenant "The deletion has started, or is done."
//	@x-access    "operator"
//	@Router      /v1/admin/tenants/{id} [delete]
func (h *Handlers) DeleteTenant(ctx context.Context, c *Call, _ None) (Response[api.Tenant], error) {
	id, err := c.id()
	if err != nil {
		return Response[api.Tenant]{}, err
	}
	whose := hop.LimitsChanged{Tenant: id}
	h.auth.ForgetLimits(whose) // before as well as after: if the answer is lost, the deletion may still have begun
	answer, err := send(ctx, h, c, hop.DeleteTenant, hop.ID{ID: id})
	h.auth.ForgetLimits(whose)
	answer.Status = http.StatusAccepted
	return answer, err
}
