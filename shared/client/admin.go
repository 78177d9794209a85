package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/forgequeue/forgequeue/shared/api"
)

// These calls are the operator's: they need the operator key, and are answered 404
// if none is configured. Calls that create something are not repeated once they may
// have been written.

// PageRequest asks for one page of a list; the zero value for the first, in the
// server's own size.
type PageRequest struct {
	// Size is 1 to 200 items; 0 lets the server choose (50).
	Size int
	// Token is the page before's NextPageToken.
	Token string
}

func (p PageRequest) query() url.Values {
	query := url.Values{}
	if p.Size > 0 {
		query.Set("page_size", strconv.Itoa(p.Size))
	}
	if p.Token != "" {
		query.Set("page_token", p.Token)
	}
	return query
}

// CreateTenant makes a tenant.
func (c *Client) CreateTenant(ctx context.Context, tenant api.TenantRequest) (api.Tenant, error) {
	var answer api.Tenant
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "admin", "tenants"}, body: tenant, answer: &answer})
	return answer, err
}

// ListTenants gives one page of tenants, newest first. A page may be short or
// empty while it has a NextPageToken.
func (c *Client) ListTenants(ctx context.Context, page PageRequest) (api.Page[api.Tenant], error) {
	return list[api.Tenant](ctx, c, page.query(), "admin", "tenants")
}

// GetTenant reads a tenant, a deleted one too.
func (c *Client) GetTenant(ctx context.Context, tenantID string) (api.Tenant, error) {
	return c.tenant(ctx, http.MethodGet, tenantID)
}

// DeleteTenant revokes a tenant's keys and begins to remove its data; GetTenant says
// in Deletion how far that is. It cannot be taken back. A repeat changes nothing.
func (c *Client) DeleteTenant(ctx context.Context, tenantID string) (api.Tenant, error) {
	return c.tenant(ctx, http.MethodDelete, tenantID)
}

func (c *Client) tenant(ctx context.Context, method, tenantID string) (api.Tenant, error) {
	var answer api.Tenant
	err := c.do(ctx, call{method: method, path: []string{"v1", "admin", "tenants", tenantID}, answer: &answer, repeatable: true})
	return answer, err
}

// PatchTenant changes a tenant: what is nil stays, and Overrides, where given,
// replace all overrides. A repeat changes nothing.
func (c *Client) PatchTenant(ctx context.Context, tenantID string, patch api.TenantPatch) (api.Tenant, error) {
	var answer api.Tenant
	err := c.do(ctx, call{
		method: http.MethodPatch, path: []string{"v1", "admin", "tenants", tenantID}, body: patch, answer: &answer, repeatable: true,
	})
	return answer, err
}

// CreateKey makes a key for a tenant, or for one user of it. Its secret is in
// this answer and nowhere else.
func (c *Client) CreateKey(ctx context.Context, tenantID string, key api.KeyRequest) (api.NewKey, error) {
	var answer api.NewKey
	err := c.do(ctx, call{
		method: http.MethodPost, path: []string{"v1", "admin", "tenants", tenantID, "keys"}, body: key, answer: &answer,
	})
	return answer, err
}

// ListKeys gives one page of a tenant's keys, without their secrets.
func (c *Client) ListKeys(ctx context.Context, tenantID string, page PageRequest) (api.Page[api.Key], error) {
	return list[api.Key](ctx, c, page.query(), "admin", "tenants", tenantID, "keys")
}

// CreatePlatformKey makes a key that claims from the queues of all tenants.
func (c *Client) CreatePlatformKey(ctx context.Context, key api.PlatformKeyRequest) (api.NewKey, error) {
	var answer api.NewKey
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "admin", "platform-keys"}, body: key, answer: &answer})
	return answer, err
}

// RevokeKey ends a key; it is no error if it had ended before.
func (c *Client) RevokeKey(ctx context.Context, keyID string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"v1", "admin", "keys", keyID}, repeatable: true})
}

// GetPlan reads a plan.
func (c *Client) GetPlan(ctx context.Context, name string) (api.Plan, error) {
	var answer api.Plan
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "admin", "plans", name}, answer: &answer, repeatable: true})
	return answer, err
}

// ListPlans gives one page of plans, by name.
func (c *Client) ListPlans(ctx context.Context, page PageRequest) (api.Page[api.Plan], error) {
	return list[api.Plan](ctx, c, page.query(), "admin", "plans")
}

// PutPlan makes a plan, or replaces all of it; a nil limit is none. A repeat
// changes nothing.
func (c *Client) PutPlan(ctx context.Context, name string, plan api.PlanRequest) (api.Plan, error) {
	var answer api.Plan
	err := c.do(ctx, call{
		method: http.MethodPut, path: []string{"v1", "admin", "plans", name}, body: plan, answer: &answer, repeatable: true,
	})
	return answer, err
}

// Installation reads how the stores are, and what runs in them.
func (c *Client) Installation(ctx context.Context) (api.Installation, error) {
	var answer api.Installation
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "admin", "installation"}, answer: &answer, repeatable: true})
	return answer, err
}
