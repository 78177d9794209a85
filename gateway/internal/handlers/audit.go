package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ListAudit lists audit entries.
//
//	@Description Changes to the tenant's resources and the key that made each, newest first: dead letters, redrives, queues, and the operator's changes to the tenant and its keys. An entry is committed in the same transaction as its change. Entries are kept for a year by default. They never contain secrets.
//	@Param       action     query string false "Only entries with this action."
//	@Param       object     query string false "Only entries about this object: the id of a job, a redrive, a key or a tenant, or the name of a queue or a plan."
//	@Param       key_id     query string false "Only changes made with this key."
//	@Param       after      query string false "Only changes after this time." Format(date-time)
//	@Param       before     query string false "Only changes before this time." Format(date-time)
//	@Success     200 {object} api.Page[api.AuditEntry] "A page of entries."
func (h *Handlers) ListAudit(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return h.pageOfAudit(ctx, c)
}

// ListAllAudit lists audit entries of all tenants.
//
//	@Description Like `GET /v1/audit`, for all tenants or for one. `tenant` is null in entries about plans and platform keys.
//	@Param       tenant     query string false "Only entries of this tenant." Format(uuid)
//	@Param       action     query string false "Only entries with this action."
//	@Param       object     query string false "Only entries about this object: the id of a job, a redrive, a key or a tenant, or the name of a queue or a plan."
//	@Param       key_id     query string false "Only changes made with this key."
//	@Param       after      query string false "Only changes after this time." Format(date-time)
//	@Param       before     query string false "Only changes before this time." Format(date-time)
//	@Success     200 {object} api.Page[api.AuditEntry] "A page of entries."
func (h *Handlers) ListAllAudit(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return h.pageOfAudit(ctx, c)
}

// pageOfAudit asks core for a page. Core decides which tenants' entries the caller sees.
func (h *Handlers) pageOfAudit(ctx context.Context, c *call.Call) (call.Passed, error) {
	return call.Filtered(ctx, h.core, c, hop.ListAudit, func(q *request.Query) api.AuditFilter {
		return api.AuditFilter{
			Tenant: q.Text("tenant", "must be a tenant's id", validUUID),
			Action: q.OneOf("action", api.AuditActions()...),
			Object: q.Label("object"),
			KeyID:  q.Label("key_id"),
			After:  q.Time("after"),
			Before: q.Time("before"),
		}
	})
}

func validUUID(text string) bool {
	_, ok := request.UUID(text)
	return ok
}
