package administration

import (
	"context"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// CreateTenant creates a tenant under an id that the gateway drew.
//
//	@x-example-tenant {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "value": {"name": "Example Ltd"}}
func (a *Administration) CreateTenant(ctx context.Context, item hop.Item[hop.WithID[api.TenantRequest]]) (api.Tenant, error) {
	id, err := tenantID(item.Request.ID)
	if err != nil {
		return api.Tenant{}, err
	}
	cell, err := a.placeTenant(ctx, item.Request.Value.Cell)
	if err != nil {
		return api.Tenant{}, err
	}
	return a.shown(a.Store.Tenants.CreateIn(ctx, cell, id, item.Request.Value))
}

// shown is a tenant as the operator sees it.
func (a *Administration) shown(t api.Tenant, err error) (api.Tenant, error) {
	if t.Cell == "" {
		t.Cell = a.Cell
	}
	return t, err
}

// tenantID reads the id that the gateway drew for a tenant.
func tenantID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		return uuid.UUID{}, problem.New(problem.InvalidRequest, "A tenant's id must be a UUID.")
	}
	return id, nil
}

// ListTenants lists tenants, newest first.
func (a *Administration) ListTenants(ctx context.Context, item hop.Item[hop.PageRequest]) (api.Page[api.Tenant], error) {
	of := pages.ListingOf(hop.ListTenants.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return pages.Listed(a.Pages, of, pages.NewestID, func(t api.Tenant) string { return t.ID }, func(before uuid.UUID, limit int) ([]api.Tenant, error) {
		tenants, err := a.Store.Tenants.List(ctx, before, limit)
		for i := range tenants {
			tenants[i], _ = a.shown(tenants[i], nil)
		}
		return tenants, err
	})
}

// PatchTenant changes a tenant. What is absent stays; overrides replace all overrides. All gateways are
// notified.
//
//	@x-problems  ["not_found"]
//	@x-example-weight {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "value": {"weight": 5}}
func (a *Administration) PatchTenant(ctx context.Context, item hop.Item[hop.WithID[api.TenantPatch]]) (api.Tenant, error) {
	id, err := uuid.Parse(item.Request.ID)
	if err != nil {
		return api.Tenant{}, store.ErrNotFound
	}
	patched, err := a.shown(a.Store.Tenants.Patch(ctx, id, item.Request.Value))
	if err == nil {
		a.limitsChanged(ctx, hop.LimitsChanged{Tenant: patched.ID})
	}
	return patched, err
}

// GetTenant reads a tenant. A deleted one too: `deletion` says how far that is.
//
//	@x-problems  ["not_found"]
//	@x-example-tenant {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002"}
func (a *Administration) GetTenant(ctx context.Context, item hop.Item[hop.ID]) (api.Tenant, error) {
	id, err := uuid.Parse(item.Request.ID)
	if err != nil {
		return api.Tenant{}, store.ErrNotFound
	}
	return a.shown(a.Store.Tenants.Get(ctx, id))
}

// DeleteTenant begins the deletion of a tenant. It revokes the tenant's keys at once and stops its work; a
// duty removes its data. A repeat changes nothing. All gateways are notified.
//
//	@x-problems  ["not_found"]
//	@x-example-tenant {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002"}
func (a *Administration) DeleteTenant(ctx context.Context, item hop.Item[hop.ID]) (api.Tenant, error) {
	id, err := uuid.Parse(item.Request.ID)
	if err != nil {
		return api.Tenant{}, store.ErrNotFound
	}
	deleted, err := a.shown(a.Store.Tenants.Delete(ctx, id))
	if err == nil {
		a.limitsChanged(ctx, hop.LimitsChanged{Tenant: deleted.ID})
		a.Engine.Publisher.Deleted.Kick()
	}
	return deleted, err
}
