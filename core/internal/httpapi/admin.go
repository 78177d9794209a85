package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// lookupKey is for the gateway itself, before it knows who calls: the signature
// is all the proof there is.
func (s *Server) lookupKey(ctx context.Context, item api.Item[api.HopKeyLookupRequest]) (api.HopKey, error) {
	return s.Store.LookupKey(ctx, item.Request.KeyID)
}

func (s *Server) createTenant(ctx context.Context, item api.Item[api.HopTenantCreateRequest]) (api.Tenant, error) {
	id, err := uuid.Parse(item.Request.ID)
	if err != nil || id == uuid.Nil {
		return api.Tenant{}, problem.New(problem.InvalidRequest, "A tenant's id must be a UUID.")
	}
	return s.Store.CreateTenant(ctx, id, item.Request.TenantRequest)
}

func (s *Server) listTenants(ctx context.Context, item api.Item[api.HopPageRequest]) (api.Page[api.Tenant], error) {
	return paged(s, listingOf(api.HopTenantList, item.Principal, nil), item.Request.PageToken, func(place string) (api.Page[api.Tenant], error) {
		var before *uuid.UUID
		if place != "" {
			id, err := uuid.Parse(place)
			if err != nil {
				return api.Page[api.Tenant]{}, store.ErrPageToken
			}
			before = &id
		}
		tenants, err := s.Store.ListTenants(ctx, before, item.Request.PageSize+1)
		return page(tenants, item.Request.PageSize, func(t api.Tenant) string { return t.ID }), err
	})
}

// page cuts a list that was read one item too far: that item says that there is more.
func page[T any](found []T, size int, token func(T) string) api.Page[T] {
	made := api.Page[T]{Items: found}
	if found == nil {
		made.Items = []T{}
	}
	if len(found) > size && size > 0 {
		made.Items = found[:size]
		next := token(found[size-1])
		made.NextPageToken = &next
	}
	return made
}

func (s *Server) patchTenant(ctx context.Context, item api.Item[api.HopTenantPatchRequest]) (api.Tenant, error) {
	id, err := uuid.Parse(item.Request.ID)
	if err != nil {
		return api.Tenant{}, store.ErrNotFound
	}
	patched, err := s.Store.PatchTenant(ctx, id, item.Request.TenantPatch)
	if err == nil {
		s.limitsChanged(ctx, api.LimitsChanged{Tenant: patched.ID})
	}
	return patched, err
}

// limitsChanged puts limits in force at once: here by reading them, in other cores
// and in gateways by a hint. Where the hint is lost they poll.
func (s *Server) limitsChanged(ctx context.Context, whose api.LimitsChanged) {
	if err := s.Dispatcher.Refresh(ctx); err != nil {
		s.Logger.WarnContext(ctx, "changed limits are not in force yet", "error", err)
	}
	s.Hints.Settings()
	s.Hints.LimitsChanged(whose)
}

// caps tells a tenant, or one user of it, what is used of its caps.
func (s *Server) caps(ctx context.Context, item api.Item[api.HopCapsRequest]) (api.HopCapsResponse, error) {
	owner, err := ofTenant(item.Principal)
	if err != nil {
		return api.HopCapsResponse{}, err
	}
	user := item.Request.User
	if bound := item.Principal.User; bound != "" {
		user = bound
	}
	used, err := s.Dispatcher.CapUse(ctx, owner, user)
	return api.HopCapsResponse{Caps: used}, err
}

func (s *Server) createKey(ctx context.Context, item api.Item[api.HopKeyCreateRequest]) (api.Key, error) {
	request := item.Request
	if request.Kind == api.PrincipalTenant {
		if _, err := uuid.Parse(request.Tenant); err != nil {
			return api.Key{}, store.ErrNotFound
		}
	}
	return s.Store.CreateKey(ctx, request)
}

func (s *Server) listKeys(ctx context.Context, item api.Item[api.HopPageRequest]) (api.Page[api.Key], error) {
	id, err := uuid.Parse(item.Request.Tenant)
	if err != nil {
		return api.Page[api.Key]{}, store.ErrNotFound
	}
	return paged(s, listingOf(api.HopKeyList, item.Principal, id), item.Request.PageToken, func(place string) (api.Page[api.Key], error) {
		keys, err := s.Store.ListKeys(ctx, id, place, item.Request.PageSize+1)
		return page(keys, item.Request.PageSize, func(k api.Key) string { return k.KeyID }), err
	})
}

func (s *Server) revokeKey(ctx context.Context, item api.Item[api.HopKeyLookupRequest]) (struct{}, error) {
	if err := s.Store.RevokeKey(ctx, item.Request.KeyID); err != nil {
		return struct{}{}, err
	}
	s.Hints.KeyRevoked(item.Request.KeyID)
	return struct{}{}, nil
}

func (s *Server) getPlan(ctx context.Context, item api.Item[api.HopPlanGetRequest]) (api.Plan, error) {
	return s.Store.GetPlan(ctx, item.Request.Name)
}

func (s *Server) putPlan(ctx context.Context, item api.Item[api.HopPlanPutRequest]) (api.Plan, error) {
	plan, err := s.Store.PutPlan(ctx, item.Request.Name, item.Request.PlanRequest)
	if err == nil {
		s.limitsChanged(ctx, api.LimitsChanged{Plan: plan.Name})
	}
	return plan, err
}

func (s *Server) ready(ctx context.Context, _ api.Item[struct{}]) (api.Readiness, error) {
	readiness, _ := s.readiness(ctx)
	return readiness, nil
}

// readiness: a core without its database is degraded, not dead; only one that is
// about to stop wants no more work.
func (s *Server) readiness(ctx context.Context) (api.Readiness, int) {
	if s.Draining() {
		return api.Readiness{Status: "draining", Checks: map[string]string{}}, http.StatusServiceUnavailable
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	readiness := api.Readiness{Status: "ok", Checks: map[string]string{"database": "ok"}}
	if err := s.Store.Ping(ctx); err != nil {
		readiness.Status, readiness.Checks["database"] = "degraded", "down"
	}
	return readiness, http.StatusOK
}
