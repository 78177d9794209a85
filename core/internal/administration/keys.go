package administration

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// keysOf gives the tenant whose keys a principal sees: its own, or the one that the operator names.
func keysOf(owner *tenant.ID, named string) (tenant.ID, error) {
	if owner != nil {
		return *owner, nil
	}
	id, err := uuid.Parse(named)
	if err != nil {
		return tenant.ID{}, store.ErrNotFound
	}
	return id, nil
}

// LookUpKey looks up a key for the gateway, before it knows who calls. The call's signature is all the
// proof there is. A revoked or expired key is not found. The secret's HMAC is under the gateway's own
// secret: core never sees a key.
//
//	@x-problems  ["not_found"]
//	@x-example-key {"id": "8y2k4m6n8p0q1r3s"}
func (a *Administration) LookUpKey(ctx context.Context, item hop.Item[hop.ID]) (hop.KeyRecord, error) {
	return a.Store.Keys.Lookup(ctx, item.Request.ID)
}

// LookUpTenant looks up a tenant for a person who acts for it without a key. The answer has what a key has of its
// tenant: name, plan, overrides, cell. A deleted tenant is not found.
//
//	@x-problems  ["not_found"]
//	@x-example-tenant {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002"}
func (a *Administration) LookUpTenant(ctx context.Context, item hop.Item[hop.ID]) (hop.KeyRecord, error) {
	id, err := uuid.Parse(item.Request.ID)
	if err != nil {
		return hop.KeyRecord{}, store.ErrNotFound
	}
	return a.Store.Keys.LookupTenant(ctx, id)
}

// asking is the key that asks for a change of keys: it must still be valid. A person has none; the gateway has
// checked the person's groups.
func asking(p hop.Principal) *string {
	if p.IsPerson() {
		return nil
	}
	return &p.KeyID
}

// CreateKey stores a key that the gateway drew: its id and its secret's HMAC. A tenant's key with the scope
// `admin` stores keys of its own tenant, as long as it is valid itself.
//
//	@x-problems  ["not_found"]
//	@x-example-tenant {"key_id": "exampleexamp", "kind": "tenant", "secret_hmac": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "tenant": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "scopes": ["submit", "read"]}
func (a *Administration) CreateKey(ctx context.Context, owner *tenant.ID, item hop.Item[hop.CreateKeyRequest]) (api.Key, error) {
	request := item.Request
	if owner == nil {
		if _, err := keysOf(owner, request.Tenant); err != nil && request.Kind != hop.PrincipalPlatform {
			return api.Key{}, err
		}
		return a.Store.Keys.Create(ctx, request)
	}
	// Validated by the gateway too, see operations.submitCall: its key could otherwise make one that is bound and has admin.
	wanted := api.KeyRequest{User: request.User, Scopes: request.Scopes}
	if fields := wanted.Validate(time.Now()); len(fields) > 0 {
		return api.Key{}, problem.Invalid(fields...)
	}
	return a.Store.Keys.CreateOwn(ctx, *owner, asking(item.Principal), request)
}

// ListKeys lists a tenant's keys, without their HMACs. A tenant's key with the scope `admin` lists those of
// its own tenant.
//
//	@x-problems  ["not_found"]
//	@x-example-first {"for": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "page_size": 50}
func (a *Administration) ListKeys(ctx context.Context, owner *tenant.ID, item hop.Item[hop.PageFor]) (api.Page[api.Key], error) {
	whose, err := keysOf(owner, item.Request.For)
	if err != nil {
		return api.Page[api.Key]{}, err
	}
	of := pages.ListingOf(hop.ListKeys.Path, item.Principal, whose, item.Request.PageSize, item.Request.PageToken)
	return pages.Listed(a.Pages, of, pages.ByText, func(k api.Key) string { return k.KeyID }, func(after string, limit int) ([]api.Key, error) {
		return a.Store.Keys.List(ctx, whose, after, limit)
	})
}

// RevokeKey revokes a key. A repeat changes nothing. All gateways are notified. A tenant's key with the
// scope `admin` revokes keys of its own tenant, but not itself.
//
//	@x-problems  ["not_found"]
//	@x-example-key {"id": "8y2k4m6n8p0q1r3s"}
func (a *Administration) RevokeKey(ctx context.Context, owner *tenant.ID, item hop.Item[hop.ID]) (struct{}, error) {
	id := item.Request.ID
	var err error
	if owner == nil {
		err = a.Store.Keys.Revoke(ctx, id)
	} else {
		err = a.Store.Keys.RevokeOwn(ctx, *owner, asking(item.Principal), id)
	}
	if err == nil {
		a.Hints.KeyRevoked(id)
	}
	return struct{}{}, err
}

// EndSessions ends the console sessions of the principal's own key that have begun before. All gateways are
// notified.
//
//	@x-problems  ["not_found"]
func (a *Administration) EndSessions(ctx context.Context, owner tenant.ID, item hop.Item[struct{}]) (struct{}, error) {
	id := item.Principal.KeyID
	if err := a.Store.Keys.EndSessions(ctx, owner, id); err != nil {
		return struct{}{}, err
	}
	a.Hints.KeyRevoked(id) // gateways look the key up again, and find it valid
	return struct{}{}, nil
}
