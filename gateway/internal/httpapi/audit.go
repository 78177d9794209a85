package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
)

func (s *Server) auditRoutes() []endpoint {
	return []endpoint{
		handle(s, route{method: "GET", path: "/v1/audit", access: forTenant(api.ScopeManage), query: pageParams(auditParams()...)}, s.listAudit),
	}
}

func (s *Server) adminAuditRoutes() []endpoint {
	return []endpoint{
		handle(s, route{
			method: "GET", path: "/v1/admin/audit", access: operatorOnly(), query: pageParams(append(auditParams(), "tenant")...),
		}, s.listAudit),
	}
}

func auditParams() []string { return []string{"action", "object", "key_id", "after", "before"} }

// listAudit answers GET /v1/audit with a page of who did what to what is the tenant's,
// newest first, and GET /v1/admin/audit with that of all tenants, or of one.
func (s *Server) listAudit(ctx context.Context, c *call, _ none) (reply[api.Page[api.AuditEntry]], error) {
	p := &parameters{values: c.query}
	page := p.page()
	filter := api.AuditFilter{
		Tenant: p.text("tenant", "must be a tenant's id", validUUID),
		Action: p.oneOf("action", api.AuditActions()...),
		Object: p.label("object"),
		KeyID:  p.label("key_id"),
		After:  p.time("after"),
		Before: p.time("before"),
	}
	if err := p.err(); err != nil {
		return reply[api.Page[api.AuditEntry]]{}, err
	}
	return send[api.HopAuditRequest, api.Page[api.AuditEntry]](ctx, s, c, coreclient.Read(api.HopAudit),
		api.HopAuditRequest{Filter: filter, PageSize: page.PageSize, PageToken: page.PageToken})
}

func validUUID(text string) bool {
	_, ok := canonicalUUID(text)
	return ok
}
