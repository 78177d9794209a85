package httpapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

// A key with the scope admin makes, lists and revokes keys of its tenant alone, whatever tenant it names.
func TestPrincipalsOfKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	create := func(id, tenant string, scopes ...string) api.HopKeyCreateRequest {
		return api.HopKeyCreateRequest{KeyID: id, Kind: api.PrincipalTenant, SecretHMAC: make([]byte, 32), Tenant: tenant, Scopes: scopes}
	}
	admin, other := f.tenant, f.newTenant()
	admin.KeyID, admin.Scopes = "admin", []string{api.ScopeAdmin}
	other.KeyID, other.Scopes = "other", []string{api.ScopeAdmin}
	for _, p := range []api.Principal{admin, other} {
		one[api.Key](f, api.HopKeyCreate, operator(), create(p.KeyID, p.Tenant, p.Scopes...))
	}
	manager := f.tenant
	manager.KeyID, manager.Scopes = "admin", api.UserScopes() // the gateway's word is not enough, nor is the database's
	claimed := other
	claimed.KeyID = "admin"
	bound := create("bound", "", api.ScopeAdmin)
	bound.User = new("bob")
	got := statuses(ask[api.Key](f, api.HopKeyCreate,
		item(admin, create("k1", other.Tenant, api.ScopeRead)), item(manager, create("k2", "", api.ScopeRead)), item(claimed, create("k3", "", api.ScopeRead)),
		item(userOf(admin, "bob"), create("k4", "", api.ScopeRead)), item(platform(), create("k5", f.tenant.Tenant, api.ScopeRead)),
		item(admin, bound), item(admin, create("k6", "", "everything")), item(admin, create("k7", ""))))
	if want := ",forbidden,forbidden,forbidden,forbidden,invalid_request,invalid_request,invalid_request"; strings.Join(got, ",") != want {
		t.Errorf("creations: %q, want %q", got, want)
	}
	ids := func(p api.Principal, named string) (ids []string) {
		for _, key := range one[api.Page[api.Key]](f, api.HopKeyList, p, api.HopPageRequest{Tenant: named, PageSize: 10}).Items {
			ids = append(ids, key.KeyID)
		}
		return ids
	}
	if got := ids(admin, other.Tenant); !slices.Equal(got, []string{"admin", "k1"}) {
		t.Errorf("its own keys: %v", got)
	}
	if got := ids(other, ""); !slices.Equal(got, []string{"other"}) {
		t.Errorf("the other's keys: %v", got)
	}
	first := one[api.Page[api.Key]](f, api.HopKeyList, admin, api.HopPageRequest{PageSize: 1})
	next := api.HopPageRequest{PageSize: 1, PageToken: *first.NextPageToken}
	lists := statuses(ask[api.Page[api.Key]](f, api.HopKeyList, item(admin, next), item(other, next), item(manager, next)))
	if want := ",invalid_request,forbidden"; strings.Join(lists, ",") != want {
		t.Errorf("lists: %q, want %q", lists, want)
	}
	revoke := func(p api.Principal, id string) api.Item[api.HopKeyLookupRequest] {
		return item(p, api.HopKeyLookupRequest{KeyID: id})
	}
	got = statuses(ask[struct{}](f, api.HopKeyRevoke,
		revoke(other, "k1"), revoke(admin, "other"), revoke(admin, "admin"), revoke(manager, "k1"), revoke(admin, "k1"), revoke(admin, "k1")))
	if want := "not_found,not_found,forbidden,forbidden,,"; strings.Join(got, ",") != want {
		t.Errorf("revocations: %q, want %q", got, want)
	}
}
