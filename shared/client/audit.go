package client

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Audit gives one page of the tenant's audit events, newest first. It needs a key with
// the scope manage that is bound to no user.
func (c *Client) Audit(ctx context.Context, filter api.AuditFilter, page PageRequest) (api.Page[api.AuditEntry], error) {
	return audit(ctx, c, filter, page, "audit")
}

// AdminAudit is Audit for the operator: of all tenants, or of the one that the filter
// names.
func (c *Client) AdminAudit(ctx context.Context, filter api.AuditFilter, page PageRequest) (api.Page[api.AuditEntry], error) {
	return audit(ctx, c, filter, page, "admin", "audit")
}

func audit(ctx context.Context, c *Client, filter api.AuditFilter, page PageRequest, path ...string) (api.Page[api.AuditEntry], error) {
	query := page.query()
	set(query, "tenant", filter.Tenant)
	set(query, "action", filter.Action)
	set(query, "object", filter.Object)
	set(query, "key_id", filter.KeyID)
	setTime(query, "after", filter.After)
	setTime(query, "before", filter.Before)
	return list[api.AuditEntry](ctx, c, query, path...)
}
