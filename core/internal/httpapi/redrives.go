package httpapi

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// actor is who a principal is to the audit log.
func actor(p api.Principal) audit.Actor {
	return audit.Actor{Kind: p.Kind, KeyID: p.KeyID, User: p.User}
}

// byFilter begins a redrive or a discard of all that match, or counts them.
func (s *Server) byFilter(ctx context.Context, owner tenant.ID, item api.Item[api.DeadLetterRequest], action string) (json.RawMessage, error) {
	filter, user := item.Request.Filter.Filter(), item.Principal.User
	if item.Request.DryRun {
		matched, err := s.Store.Matching(ctx, owner, user, filter)
		if err != nil {
			return nil, err
		}
		return json.Marshal(matched)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	made, err := s.Store.CreateRedrive(ctx, owner, user, deadletter.NewRedrive{ID: id, Action: action, Filter: filter, Rate: item.Request.RatePerSecond})
	if err != nil {
		return nil, err
	}
	return json.Marshal(made)
}

func (s *Server) deadLetterGroups(ctx context.Context, item api.Item[api.HopDeadLetterGroupsRequest]) (api.DeadLetterGroups, error) {
	owner, err := ofTenant(item.Principal)
	if err != nil {
		return api.DeadLetterGroups{}, err
	}
	return s.Store.DeadLetterGroups(ctx, owner, item.Principal.User, item.Request.Filter, pageSize(item.Request.Size))
}

func (s *Server) getRedrive(ctx context.Context, item api.Item[api.HopRedriveRequest]) (api.Redrive, error) {
	owner, id, err := ofJob(item.Principal, item.Request.ID)
	if err != nil {
		return api.Redrive{}, err
	}
	return s.Store.GetRedrive(ctx, owner, item.Principal.User, id)
}

func (s *Server) listRedrives(ctx context.Context, item api.Item[api.HopPageRequest]) (api.Page[api.Redrive], error) {
	owner, err := ofTenant(item.Principal)
	if err != nil {
		return api.Page[api.Redrive]{}, err
	}
	return paged(s, listingOf(api.HopRedriveList, item.Principal, nil), item.Request.PageToken, func(place string) (api.Page[api.Redrive], error) {
		before := uuid.Max
		if place != "" {
			if before, err = uuid.Parse(place); err != nil {
				return api.Page[api.Redrive]{}, store.ErrPageToken
			}
		}
		size := pageSize(item.Request.PageSize)
		listed, err := s.Store.ListRedrives(ctx, owner, item.Principal.User, before, size+1)
		return page(listed, size, func(r api.Redrive) string { return r.ID }), err
	})
}

func (s *Server) cancelRedrive(ctx context.Context, item api.Item[api.HopRedriveRequest]) (api.Redrive, error) {
	owner, id, err := ofJob(item.Principal, item.Request.ID)
	if err != nil {
		return api.Redrive{}, err
	}
	return s.Store.CancelRedrive(ctx, owner, item.Principal.User, id)
}

// audit is for the operator, who sees all, and for a tenant, which sees its own. It is
// no single user's.
func (s *Server) audit(ctx context.Context, item api.Item[api.HopAuditRequest]) (api.Page[api.AuditEntry], error) {
	filter := item.Request.Filter
	var owner *tenant.ID
	if item.Principal.Kind != api.PrincipalOperator {
		id, err := ofManager(item.Principal)
		if err != nil {
			return api.Page[api.AuditEntry]{}, err
		}
		owner, filter.Tenant = &id, ""
	} else if filter.Tenant != "" {
		id, err := uuid.Parse(filter.Tenant)
		if err != nil {
			return api.Page[api.AuditEntry]{}, store.ErrNotFound
		}
		owner = &id
	}
	return paged(s, listingOf(api.HopAudit, item.Principal, filter), item.Request.PageToken, func(place string) (api.Page[api.AuditEntry], error) {
		return s.Store.Audit(ctx, owner, filter, pageSize(item.Request.PageSize), place)
	})
}
