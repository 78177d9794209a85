package keys_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/keys"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// keyOf is a key as a gateway draws it.
func keyOf(id string, scopes ...string) hop.CreateKeyRequest {
	return hop.CreateKeyRequest{KeyID: id, Kind: hop.PrincipalTenant, Scopes: scopes, SecretHMAC: make([]byte, 32)}
}

// operatorMakes stores a key as the operator does.
func (f *fixture) operatorMakes(owner tenant.ID, key hop.CreateKeyRequest) string {
	f.Helper()
	key.Tenant = owner.String()
	if _, err := f.Store.Keys.Create(f.Context(), key); err != nil {
		f.Fatal(err)
	}
	return key.KeyID
}

func (f *fixture) keyIDs(owner tenant.ID) (ids []string) {
	f.Helper()
	keys, err := f.Store.Keys.List(f.Context(), owner, "", 1000)
	if err != nil {
		f.Fatal(err)
	}
	for _, key := range keys {
		if key.CreatedAt.IsZero() || *key.Tenant != owner.String() {
			f.Errorf("%+v", key)
		}
		ids = append(ids, key.KeyID)
	}
	return ids
}

// A key with the scope admin changes keys of its tenant as long as it is valid by the database, whatever a
// gateway remembers of it; and no others'.
func TestKeysOfATenantChangeItsKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx, other := audit.WithActor(t.Context(), audit.Actor{Kind: hop.PrincipalTenant, KeyID: "admin"}), f.NewTenant()
	f.operatorMakes(f.Tenant, keyOf("admin", api.ScopeAdmin))
	foreign := f.operatorMakes(other, keyOf("foreign", api.ScopeAdmin))
	made, err := f.Store.Keys.CreateOwn(ctx, f.Tenant, new("admin"), keyOf("made", api.Scopes()...))
	if err != nil || *made.Tenant != f.Tenant.String() || !slices.Equal(made.Scopes, api.Scopes()) || made.CreatedAt.IsZero() {
		t.Fatalf("%+v %v", made, err)
	}
	// What the request names as its tenant and kind does not count.
	named := keyOf("named", api.ScopeRead)
	named.Kind, named.Tenant = hop.PrincipalPlatform, other.String()
	if made, err := f.Store.Keys.CreateOwn(ctx, f.Tenant, new("admin"), named); err != nil || *made.Tenant != f.Tenant.String() {
		t.Errorf("%+v %v", made, err)
	}
	if found, err := f.Store.Keys.Lookup(ctx, "named"); err != nil || found.Kind != hop.PrincipalTenant || found.Tenant != f.Tenant.String() || found.TenantName != "test" {
		t.Errorf("%+v %v", found, err)
	}

	bound := keyOf("bound", api.ScopeAdmin)
	bound.User = new("bob")
	f.operatorMakes(f.Tenant, bound)
	f.operatorMakes(f.Tenant, keyOf("manager", api.ScopeManage))
	for _, by := range []string{"bound", "manager", foreign, "unknown", ""} {
		if _, err := f.Store.Keys.CreateOwn(ctx, f.Tenant, &by, keyOf("x", api.ScopeRead)); !errors.Is(err, keys.ErrNotAdmin) {
			t.Errorf("%q makes a key: %v", by, err)
		}
		if err := f.Store.Keys.RevokeOwn(ctx, f.Tenant, &by, "made"); !errors.Is(err, keys.ErrNotAdmin) {
			t.Errorf("%q revokes a key: %v", by, err)
		}
	}
	for id, want := range map[string]error{"admin": keys.ErrOwnKey, foreign: store.ErrNotFound, "unknown": store.ErrNotFound} {
		if err := f.Store.Keys.RevokeOwn(ctx, f.Tenant, new("admin"), id); !errors.Is(err, want) {
			t.Errorf("the revocation of %s: %v, want %v", id, err, want)
		}
	}
	for range 2 {
		if err := f.Store.Keys.RevokeOwn(ctx, f.Tenant, new("admin"), "named"); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.keyIDs(f.Tenant); !slices.Equal(got, []string{"admin", "bound", "made", "manager"}) {
		t.Errorf("keys %v", got)
	}
	if got := f.keyIDs(other); !slices.Equal(got, []string{foreign}) {
		t.Errorf("the other's keys %v", got)
	}
	log, err := f.Store.Audit.Audit(ctx, &f.Tenant, api.AuditFilter{KeyID: "admin"}, 50, "")
	var actions []string
	for _, entry := range log.Items {
		actions = append(actions, entry.Action+" "+*entry.Object)
	}
	if want := []string{"key.revoke named", "key.revoke named", "key.create named", "key.create made"}; err != nil || !slices.Equal(actions, want) {
		t.Errorf("the audit log has %v, want %v (%v)", actions, want, err)
	}

	// A revoked key makes no other, nor one that has expired.
	if err := f.Store.Keys.Revoke(ctx, "admin"); err != nil {
		t.Fatal(err)
	}
	f.Exec(`UPDATE api_keys SET expires_at = statement_timestamp() WHERE key_id = 'made'`)
	for _, by := range []string{"admin", "made"} {
		if _, err := f.Store.Keys.CreateOwn(ctx, f.Tenant, &by, keyOf("late", api.ScopeRead)); !errors.Is(err, keys.ErrNotAdmin) {
			t.Errorf("%s has ended, and makes a key: %v", by, err)
		}
	}
}

// Of keys that revoke each other at the same time one stays: a tenant does not lock itself out.
func TestKeysThatRevokeEachOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids {
		f.operatorMakes(f.Tenant, keyOf(id, api.ScopeAdmin))
	}
	var group sync.WaitGroup
	for _, by := range ids {
		for _, id := range ids {
			if by == id {
				continue
			}
			group.Go(func() {
				if err := f.Store.Keys.RevokeOwn(t.Context(), f.Tenant, &by, id); err != nil && !errors.Is(err, keys.ErrNotAdmin) {
					t.Errorf("%s revokes %s: %v", by, id, err)
				}
			})
		}
	}
	group.Wait()
	if left := f.keyIDs(f.Tenant); len(left) != 1 {
		t.Errorf("%v are left", left)
	}
}

// A tenant has a bound of valid keys, and of ended ones those are remembered that ended last.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const fill = `
INSERT INTO api_keys (key_id, kind, tenant_id, scopes, secret_hmac, created_at, revoked_at, expires_at)
SELECT $2 || n, 'tenant', $1, '{admin}', decode(repeat('00', 32), 'hex'), now(),
       CASE WHEN $3 AND n % 2 = 0 THEN now() - n * interval '1 minute' END, CASE WHEN $3 AND n % 2 = 1 THEN now() - n * interval '1 minute' END
FROM generate_series(1, $4::int) AS n`
	f.Exec(fill, f.Tenant, "ended", true, 1500)
	f.Exec(fill, f.Tenant, "valid", false, api.MaxKeys-1)
	last := keyOf("last", api.ScopeRead)
	for range 2 { // a repeat makes none
		if _, err := f.Store.Keys.CreateOwn(t.Context(), f.Tenant, new("valid1"), last); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.Count("api_keys WHERE key_id LIKE 'ended%'"); n != 1000 {
		t.Errorf("%d ended keys are remembered", n)
	}
	if n := f.Count("api_keys WHERE key_id IN ('ended1', 'ended2', 'ended999', 'ended1000')"); n != 4 {
		t.Errorf("%d of the four that ended last", n)
	}
	last.Tenant, last.KeyID = f.Tenant.String(), "more"
	if _, err := f.Store.Keys.Create(t.Context(), last); !errors.Is(err, keys.ErrTooMany) {
		t.Errorf("one more by the operator: %v", err)
	}
	if _, err := f.Store.Keys.CreateOwn(t.Context(), f.Tenant, new("valid1"), last); !errors.Is(err, keys.ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	if err := f.Store.Keys.RevokeOwn(t.Context(), f.Tenant, new("valid1"), "valid2"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Store.Keys.CreateOwn(t.Context(), f.Tenant, new("valid1"), last); err != nil {
		t.Errorf("in the place of a revoked one: %v", err)
	}
	// Another tenant is not concerned, nor a tenant that is not there.
	f.operatorMakes(f.NewTenant(), keyOf("others", api.ScopeRead))
	last.Tenant, last.KeyID = uuid.NewString(), "nobody's"
	if _, err := f.Store.Keys.Create(t.Context(), last); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of no tenant: %v", err)
	}
}
