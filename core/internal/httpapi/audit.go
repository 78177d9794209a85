package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// listAudit reads a page of the audit log: the operator sees all tenants', a tenant its own;
// a principal that is bound to a user sees none.
//
//	@Summary     List the audit log
//	@Description A page of the audit log, newest first: for the operator of all tenants or of one, for a tenant of its own.
//	@ID          auditLists
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopAuditRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.AuditEntry]] "An answer for each item."
//	@x-access    "manager or operator"
//	@x-problems  ["not_found"]
//	@x-example-redrives {"filter": {"action": "redrive.create"}, "page_size": 50}
//	@Router      /internal/v1/audit-lists [post]
func (s *Server) listAudit(ctx context.Context, item api.Item[api.HopAuditRequest]) (api.Page[api.AuditEntry], error) {
	filter, owner, err := auditOf(item)
	if err != nil {
		return api.Page[api.AuditEntry]{}, err
	}
	of := listingOf(api.HopAudit, item.Principal, filter, item.Request.PageSize, item.Request.PageToken)
	return paged(s, of, func(cursor string, size int) (api.Page[api.AuditEntry], error) {
		return s.Store.Audit(ctx, owner, filter, size, cursor)
	})
}

// auditOf gives the filter, and whose entries: nil is the operator's view of all.
func auditOf(item api.Item[api.HopAuditRequest]) (api.AuditFilter, *tenant.ID, error) {
	filter := item.Request.Filter
	if item.Principal.Kind != api.PrincipalOperator {
		id, err := ofManager(item.Principal)
		if err != nil {
			return filter, nil, err
		}
		filter.Tenant = ""
		return filter, &id, nil
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
