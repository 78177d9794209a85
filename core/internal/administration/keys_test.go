package administration_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A key with the scope admin makes, lists and revokes keys of its tenant alone, whatever tenant it names.
func TestPrincipalsOfKeys(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	create := func(id, tenant string, scopes ...string) hop.CreateKeyRequest {
		return hop.CreateKeyRequest{KeyID: id, Kind: hop.PrincipalTenant, SecretHMAC: make([]byte, 32), Tenant: tenant, Scopes: scopes}
	}
	admin, other := f.Tenant, f.NewTenant()
	admin.KeyID, admin.Scopes = "admin", []string{api.ScopeAdmin}
	other.KeyID, other.Scopes = "other", []string{api.ScopeAdmin}
	for _, p := range []hop.Principal{admin, other} {
		calltest.One[api.Key](f, hop.CreateKey.Path, calltest.Operator(), create(p.KeyID, p.Tenant, p.Scopes...))
	}
	manager := f.Tenant
	manager.KeyID, manager.Scopes = "admin", api.UserScopes() // the gateway's word is not enough, nor is the database's
	claimed := other
	claimed.KeyID = "admin"
	bound := create("bound", "", api.ScopeAdmin)
	bound.User = new("bob")
	got := calltest.Statuses(calltest.Ask[api.Key](f, hop.CreateKey.Path,
		calltest.Item(admin, create("k1", other.Tenant, api.ScopeRead)), calltest.Item(manager, create("k2", "", api.ScopeRead)), calltest.Item(claimed, create("k3", "", api.ScopeRead)),
		calltest.Item(calltest.UserOf(admin, "bob"), create("k4", "", api.ScopeRead)), calltest.Item(calltest.Platform(), create("k5", f.Tenant.Tenant, api.ScopeRead)),
		calltest.Item(admin, bound), calltest.Item(admin, create("k6", "", "everything")), calltest.Item(admin, create("k7", ""))))
	if want := ",forbidden,forbidden,forbidden,forbidden,invalid_request,invalid_request,invalid_request"; strings.Join(got, ",") != want {
		t.Errorf("creations: %q, want %q", got, want)
	}
	ids := func(p hop.Principal, named string) (ids []string) {
		for _, key := range calltest.One[api.Page[api.Key]](f, hop.ListKeys.Path, p, hop.PageFor{For: named, PageRequest: hop.PageRequest{PageSize: 10}}).Items {
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
	first := calltest.One[api.Page[api.Key]](f, hop.ListKeys.Path, admin, hop.PageRequest{PageSize: 1})
	next := hop.PageRequest{PageSize: 1, PageToken: *first.NextPageToken}
	lists := calltest.Statuses(calltest.Ask[api.Page[api.Key]](f, hop.ListKeys.Path, calltest.Item(admin, next), calltest.Item(other, next), calltest.Item(manager, next)))
	if want := ",invalid_request,forbidden"; strings.Join(lists, ",") != want {
		t.Errorf("lists: %q, want %q", lists, want)
	}
	revoke := func(p hop.Principal, id string) hop.Item[hop.ID] {
		return calltest.Item(p, hop.ID{ID: id})
	}
	got = calltest.Statuses(calltest.Ask[struct{}](f, hop.RevokeKey.Path,
		revoke(other, "k1"), revoke(admin, "other"), revoke(admin, "admin"), revoke(manager, "k1"), revoke(admin, "k1"), revoke(admin, "k1")))
	if want := "not_found,not_found,forbidden,forbidden,,"; strings.Join(got, ",") != want {
		t.Errorf("revocations: %q, want %q", got, want)
	}
}
