package administration

import (
	"context"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ListAudit lists the audit log, newest first: for the operator all tenants' or one's, for a tenant its
// own.
//
//	@x-problems  ["not_found"]
//	@x-example-redrives {"filter": {"action": "redrive.create"}, "page_size": 50}
func (a *Administration) ListAudit(ctx context.Context, owner *tenant.ID, item hop.Item[hop.Filtered[api.AuditFilter]]) (api.Page[api.AuditEntry], error) {
	filter, owner, err := auditOf(owner, item.Request.Filter)
	if err != nil {
		return api.Page[api.AuditEntry]{}, err
	}
	of := pages.ListingOf(hop.ListAudit.Path, item.Principal, filter, item.Request.PageSize, item.Request.PageToken)
	return pages.Paged(a.Pages, of, func(entry api.AuditEntry) string { return entry.ID }, func(cursor string, size int) (api.Page[api.AuditEntry], error) {
		return a.Store.Audit.Audit(ctx, owner, filter, size, cursor)
	})
}

// auditOf gives the filter that is in force, and whose entries: nil is the operator's view of all.
func auditOf(owner *tenant.ID, filter api.AuditFilter) (api.AuditFilter, *tenant.ID, error) {
	if owner != nil {
		filter.Tenant = ""
		return filter, owner, nil
	}
	if filter.Tenant == "" {
		return filter, nil, nil
	}
	id, err := uuid.Parse(filter.Tenant)
	if err != nil {
		return filter, nil, store.ErrNotFound
	}
	return filter, &id, nil
}
