package httpapi

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// keysOf gives the tenant whose keys a principal may see and change: the one that the operator names, or
// that of a key with the scope admin, whatever it names.
func keysOf(p api.Principal, named string) (tenant.ID, error) {
	if p.Kind == api.PrincipalOperator {
		id, err := uuid.Parse(named)
		if err != nil {
			return tenant.ID{}, store.ErrNotFound
		}
		return id, nil
	}
	owner, err := ofManager(p)
	if err == nil && !slices.Contains(p.Scopes, api.ScopeAdmin) {
		err = problem.New(problem.Forbidden, "The key lacks the scope admin.")
	}
	return owner, err
}

// lookUpKey serves the gateway before it knows the principal: the call's signature is all
// the proof there is.
//
//	@Summary     Look up a key
//	@Description For the gateway, before it knows who calls. A revoked or expired key is not found. The secret's HMAC is under the gateway's own secret: core never sees a key.
//	@ID          keyLookups
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopKeyLookupRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.HopKey] "An answer for each item."
//	@x-access    "anybody"
//	@x-problems  ["not_found"]
//	@x-example-key {"key_id": "8y2k4m6n8p0q"}
//	@Router      /internal/v1/key-lookups [post]
func (s *Server) lookUpKey(ctx context.Context, item api.Item[api.HopKeyLookupRequest]) (api.HopKey, error) {
	return s.Store.LookupKey(ctx, item.Request.KeyID)
}

// createKey stores a key.
//
//	@Summary     Store a key
//	@Description A key that the gateway drew: its id and its secret's HMAC. A tenant's key with the scope `admin` stores keys of its own tenant, as long as it is valid itself.
//	@ID          keyCreations
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopKeyCreateRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Key] "An answer for each item."
//	@x-access    "admin or operator"
//	@x-problems  ["not_found"]
//	@x-example-tenant {"key_id": "exampleexamp", "kind": "tenant", "secret_hmac": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "tenant": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "scopes": ["submit", "read"]}
//	@Router      /internal/v1/key-creations [post]
func (s *Server) createKey(ctx context.Context, item api.Item[api.HopKeyCreateRequest]) (api.Key, error) {
	request, p := item.Request, item.Principal
	if p.Kind == api.PrincipalOperator && request.Kind == api.PrincipalPlatform {
		return s.Store.CreateKey(ctx, request)
	}
	owner, err := keysOf(p, request.Tenant)
	switch {
	case err != nil:
		return api.Key{}, err
	case p.Kind == api.PrincipalOperator:
		return s.Store.CreateKey(ctx, request)
	}
	// Validated by the gateway too, see submitCall: its key could otherwise make one that is bound and has admin.
	wanted := api.KeyRequest{User: request.User, Scopes: request.Scopes}
	if fields := wanted.Validate(time.Now()); len(fields) > 0 {
		return api.Key{}, problem.Invalid(fields...)
	}
	return s.Store.CreateOwnKey(ctx, owner, p.KeyID, request)
}

// listKeys reads a page of a tenant's keys.
//
//	@Summary     List a tenant's keys
//	@Description Without their HMACs. A tenant's key with the scope `admin` lists those of its own tenant.
//	@ID          keyLists
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopPageRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Key]] "An answer for each item."
//	@x-access    "admin or operator"
//	@x-problems  ["not_found"]
//	@x-example-first {"tenant": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "page_size": 50}
//	@Router      /internal/v1/key-lists [post]
func (s *Server) listKeys(ctx context.Context, item api.Item[api.HopPageRequest]) (api.Page[api.Key], error) {
	owner, err := keysOf(item.Principal, item.Request.Tenant)
	if err != nil {
		return api.Page[api.Key]{}, err
	}
	of := listingOf(api.HopKeyList, item.Principal, owner, item.Request.PageSize, item.Request.PageToken)
	return listed(s, of, byText, func(k api.Key) string { return k.KeyID }, func(after string, limit int) ([]api.Key, error) {
		return s.Store.ListKeys(ctx, owner, after, limit)
	})
}

// revokeKey revokes a key, and tells the gateways.
//
//	@Summary     Revoke a key
//	@Description A repeat changes nothing. All gateways are notified. A tenant's key with the scope `admin` revokes keys of its own tenant, but not itself.
//	@ID          keyRevocations
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopKeyLookupRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[any] "An answer for each item."
//	@x-access    "admin or operator"
//	@x-problems  ["not_found"]
//	@x-example-key {"key_id": "8y2k4m6n8p0q"}
//	@Router      /internal/v1/key-revocations [post]
func (s *Server) revokeKey(ctx context.Context, item api.Item[api.HopKeyLookupRequest]) (struct{}, error) {
	id := item.Request.KeyID
	if err := s.revokeStored(ctx, item.Principal, id); err != nil {
		return struct{}{}, err
	}
	s.Hints.KeyRevoked(id)
	return struct{}{}, nil
}

func (s *Server) revokeStored(ctx context.Context, p api.Principal, keyID string) error {
	if p.Kind == api.PrincipalOperator {
		return s.Store.RevokeKey(ctx, keyID)
	}
	owner, err := keysOf(p, "")
	if err != nil {
		return err
	}
	return s.Store.RevokeOwnKey(ctx, owner, p.KeyID, keyID)
}

// endSessions ends the console sessions of the key that asks, and tells the gateways.
//
//	@Summary     End a key's console sessions
//	@Description All sessions of the principal's own key that have begun before. All gateways are notified.
//	@ID          sessionEndings
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopSessionsEndRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[any] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found"]
//	@x-example-own {}
//	@Router      /internal/v1/session-endings [post]
func (s *Server) endSessions(ctx context.Context, owner tenant.ID, item api.Item[api.HopSessionsEndRequest]) (struct{}, error) {
	id := item.Principal.KeyID
	if err := s.Store.EndSessions(ctx, owner, id); err != nil {
		return struct{}{}, err
	}
	s.Hints.KeyRevoked(id) // gateways look the key up again, and find it valid
	return struct{}{}, nil
}
