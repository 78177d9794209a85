package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

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
//	@Description A key that the gateway drew: its id and its secret's HMAC.
//	@ID          keyCreations
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopKeyCreateRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Key] "An answer for each item."
//	@x-access    "operator"
//	@x-problems  ["not_found"]
//	@x-example-tenant {"key_id": "exampleexamp", "kind": "tenant", "secret_hmac": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "tenant": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "scopes": ["submit", "read"]}
//	@Router      /internal/v1/key-creations [post]
func (s *Server) createKey(ctx context.Context, item api.Item[api.HopKeyCreateRequest]) (api.Key, error) {
	request := item.Request
	if request.Kind == api.PrincipalTenant {
		if _, err := uuid.Parse(request.Tenant); err != nil {
			return api.Key{}, store.ErrNotFound
		}
	}
	return s.Store.CreateKey(ctx, request)
}

// listKeys reads a page of a tenant's keys.
//
//	@Summary     List a tenant's keys
//	@Description Without their HMACs.
//	@ID          keyLists
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopPageRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Key]] "An answer for each item."
//	@x-access    "operator"
//	@x-problems  ["not_found"]
//	@x-example-first {"tenant": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "page_size": 50}
//	@Router      /internal/v1/key-lists [post]
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

// revokeKey revokes a key, and tells the gateways.
//
//	@Summary     Revoke a key
//	@Description A repeat changes nothing. All gateways are notified.
//	@ID          keyRevocations
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopKeyLookupRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[any] "An answer for each item."
//	@x-access    "operator"
//	@x-example-key {"key_id": "8y2k4m6n8p0q"}
//	@Router      /internal/v1/key-revocations [post]
func (s *Server) revokeKey(ctx context.Context, item api.Item[api.HopKeyLookupRequest]) (struct{}, error) {
	if err := s.Store.RevokeKey(ctx, item.Request.KeyID); err != nil {
		return struct{}{}, err
	}
	s.Hints.KeyRevoked(item.Request.KeyID)
	return struct{}{}, nil
}
