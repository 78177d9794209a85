package administration_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A person acts for a tenant without a key: the tenant is looked up by its id, keys are made and revoked with the scope admin
// alone, and the audit log names the person.
func TestAPersonActsForATenant(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	id := hop.ID{ID: f.Tenant.Tenant}
	calltest.One[api.Tenant](f, hop.PatchTenant.Path, calltest.Operator(), hop.WithID[api.TenantPatch]{ID: id.ID, Value: api.TenantPatch{
		Overrides: &api.Overrides{Limits: api.Limits{MaxActive: new(int64(7))}},
	}})
	found := calltest.One[hop.KeyRecord](f, hop.LookUpTenant.Path, hop.Principal{}, id)
	if found.Tenant != id.ID || found.TenantName == "" || found.Plan == nil || *found.Overrides.MaxActive != 7 || len(found.Scopes)+len(found.SecretHMAC) > 0 {
		t.Errorf("tenant = %+v", found)
	}
	for _, unknown := range []string{uuid.NewString(), "x", ""} {
		if got := calltest.Ask[hop.KeyRecord](f, hop.LookUpTenant.Path, calltest.Item(hop.Principal{}, hop.ID{ID: unknown}))[0]; got.Status != http.StatusNotFound {
			t.Errorf("tenant %q: %+v", unknown, got)
		}
	}

	ann := hop.Principal{Kind: hop.PrincipalTenant, Tenant: id.ID, Scopes: []string{api.ScopeAdmin}, KeyID: "oidc:ann@example.com/abcdefgh"}
	create := hop.CreateKeyRequest{KeyID: "byaperson", Kind: hop.PrincipalTenant, SecretHMAC: make([]byte, 32), Scopes: []string{api.ScopeRead}}
	calltest.One[api.Key](f, hop.CreateKey.Path, ann, create)
	calltest.One[struct{}](f, hop.RevokeKey.Path, ann, hop.ID{ID: "byaperson"})
	log := calltest.One[api.Page[api.AuditEntry]](f, hop.ListAudit.Path, ann, hop.Filtered[api.AuditFilter]{Filter: api.AuditFilter{KeyID: ann.KeyID}})
	if len(log.Items) != 2 || *log.Items[0].Actor.KeyID != ann.KeyID {
		t.Errorf("audit log: %+v", log.Items)
	}
	ann.Scopes = []string{api.ScopeManage}
	for path, got := range map[string]hop.Result[any]{
		hop.CreateKey.Path: calltest.Ask[any](f, hop.CreateKey.Path, calltest.Item(ann, create))[0],
		hop.RevokeKey.Path: calltest.Ask[any](f, hop.RevokeKey.Path, calltest.Item(ann, hop.ID{ID: "k"}))[0],
	} {
		if got.Problem == nil || got.Problem.Code != problem.Forbidden {
			t.Errorf("%s without the scope admin: %+v", path, got)
		}
	}

	calltest.One[api.Tenant](f, hop.DeleteTenant.Path, calltest.Operator(), id)
	if got := calltest.Ask[hop.KeyRecord](f, hop.LookUpTenant.Path, calltest.Item(hop.Principal{}, id))[0]; got.Status != http.StatusNotFound {
		t.Errorf("a deleted tenant: %+v", got)
	}
}
