package httpapi_test

import (
	"crypto/hmac"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// last reads the last request that core got on a path.
func last[T any](d *door, path string) T {
	d.t.Helper()
	all := d.core.Requests(path)
	if len(all) == 0 {
		d.t.Fatalf("nothing reached %s", path)
	}
	var request T
	if err := json.Unmarshal(all[len(all)-1].Items[0].Request, &request); err != nil {
		d.t.Fatal(err)
	}
	return request
}

func TestTenants(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.core.On(hop.CreateTenant.Path, func(item coretest.Item) coretest.Result {
		if item.Principal.Kind != hop.PrincipalOperator {
			t.Errorf("principal %+v", item.Principal)
		}
		return coretest.Value(200, api.Tenant{ID: tenantID, Name: "acme"})
	})
	got := d.do("POST", "/v1/admin/tenants", operatorKey, `{"name":"acme","weight":2}`)
	if got.status != 201 || !strings.Contains(string(got.body), `"overrides":{`) {
		t.Errorf("status %d %s", got.status, got.body)
	}
	if request := last[hop.WithID[api.TenantRequest]](d, hop.CreateTenant.Path); uuid.Validate(request.ID) != nil || request.Value.Name != "acme" || *request.Value.Weight != 2 {
		t.Errorf("core got %+v", request)
	}
	d.do("POST", "/v1/admin/tenants", operatorKey, `{"name":""}`).refused(t, 400, problem.InvalidRequest)

	d.core.On(hop.ListTenants.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Page[api.Tenant]{Items: []api.Tenant{}})
	})
	got = d.do("GET", "/v1/admin/tenants", operatorKey, "")
	if got.status != 200 || string(got.body) != `{"items":[],"next_page_token":null}` {
		t.Errorf("status %d %s", got.status, got.body)
	}
	if page := last[hop.PageRequest](d, hop.ListTenants.Path); page.PageSize != 50 || page.PageToken != "" {
		t.Errorf("core got %+v", page)
	}
	d.do("GET", "/v1/admin/tenants?page_size=200&page_token=abc", operatorKey, "")
	if page := last[hop.PageRequest](d, hop.ListTenants.Path); page.PageSize != 200 || page.PageToken != "abc" {
		t.Errorf("core got %+v", page)
	}

	d.core.On(hop.PatchTenant.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, api.Tenant{ID: tenantID}) })
	got = d.do("PATCH", "/v1/admin/tenants/"+tenantID, operatorKey, `{"overrides":{"max_active":5,"users":{"bob":{"user_max_active":1}}}}`)
	patch := last[hop.WithID[api.TenantPatch]](d, hop.PatchTenant.Path)
	if got.status != 200 || patch.ID != tenantID || *patch.Value.Overrides.MaxActive != 5 || *patch.Value.Overrides.Users["bob"].UserMaxActive != 1 || patch.Value.Name != nil {
		t.Errorf("status %d, core got %+v", got.status, patch)
	}
	d.do("PATCH", "/v1/admin/tenants/"+tenantID, operatorKey, `{"overrides":{"max_activ":5}}`).refused(t, 400, problem.UnknownField)
	d.do("PATCH", "/v1/admin/tenants/acme", operatorKey, `{}`).refused(t, 404, problem.NotFound)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.core.On(hop.CreateKey.Path, func(item coretest.Item) coretest.Result {
		var r hop.CreateKeyRequest
		_ = json.Unmarshal(item.Request, &r)
		d.core.AddKey(hop.KeyRecord{KeyID: r.KeyID, Kind: r.Kind, SecretHMAC: r.SecretHMAC, Tenant: r.Tenant, Scopes: r.Scopes, TenantName: "Acme", Plan: &api.Plan{Name: "standard"}})
		return coretest.Value(201, api.Key{KeyID: r.KeyID, Tenant: &r.Tenant, User: r.User, Scopes: r.Scopes})
	})
	got := d.do("POST", "/v1/admin/tenants/"+tenantID+"/keys", operatorKey, `{"scopes":["read","submit"],"user":null}`)
	var made api.NewKey
	if err := json.Unmarshal(got.body, &made); err != nil || got.status != 201 {
		t.Fatalf("status %d %s", got.status, got.body)
	}
	key, err := auth.Parse(made.Secret)
	if err != nil || key.ID != made.KeyID || key.Env != "test" || *made.Tenant != tenantID {
		t.Fatalf("%+v: %v", made, err)
	}
	sent := last[hop.CreateKeyRequest](d, hop.CreateKey.Path)
	if !hmac.Equal(sent.SecretHMAC, key.HMAC([]byte(keySecret))) || sent.Kind != "tenant" || sent.Tenant != tenantID {
		t.Errorf("core got %+v", sent)
	}
	if all := d.core.Requests(hop.CreateKey.Path); strings.Contains(string(all[0].Body), key.Secret) {
		t.Error("core saw the secret")
	}
	who := d.do("GET", "/v1/whoami", made.Secret, "")
	if want := `{"tenant":"` + tenantID + `","user":null,"scopes":["read","submit"],"plan":"standard","key_id":"` + key.ID + `","sessions_ended":0,"tenant_name":"Acme"}`; string(who.body) != want {
		t.Errorf("whoami %s, want %s", who.body, want)
	}

	got = d.do("POST", "/v1/admin/platform-keys", operatorKey, "")
	if err := json.Unmarshal(got.body, &made); err != nil || got.status != 201 {
		t.Fatalf("status %d %s", got.status, got.body)
	}
	if who := d.do("GET", "/v1/whoami", made.Secret, ""); !strings.HasPrefix(string(who.body), `{"tenant":null,"user":null,"scopes":["work"],`) {
		t.Errorf("whoami %s", who.body)
	}
	if strings.Contains(d.log.String(), key.Secret) || strings.Contains(d.log.String(), made.Secret) {
		t.Error("a key is in the log")
	}

	d.core.On(hop.ListKeys.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Page[api.Key]{Items: []api.Key{{KeyID: "k"}}})
	})
	got = d.do("GET", "/v1/admin/tenants/"+tenantID+"/keys?page_size=1", operatorKey, "")
	if page := last[hop.PageFor](d, hop.ListKeys.Path); got.status != 200 || page.For != tenantID || page.PageSize != 1 || strings.Contains(string(got.body), `"key":`) {
		t.Errorf("status %d %s, core got %+v", got.status, got.body, page)
	}
	for _, body := range []string{`{"scopes":["admin"],"user":"bob"}`, `{"scopes":["read"],"expires_at":"2020-01-01T00:00:00Z"}`} {
		d.do("POST", "/v1/admin/tenants/"+tenantID+"/keys", operatorKey, body).refused(t, 400, problem.InvalidRequest)
	}
	d.do("POST", "/v1/admin/tenants/x/keys", operatorKey, `{"scopes":["read"]}`).refused(t, 404, problem.NotFound)
	d.do("GET", "/v1/admin/tenants/x/keys", operatorKey, "").refused(t, 404, problem.NotFound)
}

func TestPlans(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.core.On(hop.PutPlan.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, api.Plan{Name: "pro"}) })
	d.core.On(hop.GetPlan.Path, func(item coretest.Item) coretest.Result {
		if !strings.Contains(string(item.Request), `"pro"`) {
			return coretest.Refuse(problem.NotFound, "")
		}
		return coretest.Value(200, api.Plan{Name: "pro"})
	})
	got := d.do("PUT", "/v1/admin/plans/pro", operatorKey, `{"limits":{"requests_per_second":10.5,"max_active":null}}`)
	request := last[hop.Put[api.PlanRequest]](d, hop.PutPlan.Path)
	if got.status != 200 || request.Name != "pro" || *request.Value.Limits.RequestsPerSecond != 10.5 || request.Value.Limits.MaxActive != nil {
		t.Errorf("status %d, core got %+v", got.status, request)
	}
	if got := d.do("GET", "/v1/admin/plans/pro", operatorKey, ""); got.status != 200 || !strings.Contains(string(got.body), `"visibility_timeout_ms_max":null`) {
		t.Errorf("status %d %s", got.status, got.body)
	}
	d.core.On(hop.ListPlans.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Page[api.Plan]{Items: []api.Plan{{Name: "pro"}}})
	})
	if got := d.do("GET", "/v1/admin/plans?page_size=7&page_token=abc", operatorKey, ""); got.status != 200 || !strings.Contains(string(got.body), `"name":"pro"`) {
		t.Errorf("status %d %s", got.status, got.body)
	}
	if page := last[hop.PageRequest](d, hop.ListPlans.Path); page.PageSize != 7 || page.PageToken != "abc" {
		t.Errorf("core got %+v", page)
	}
	d.do("GET", "/v1/admin/plans/none", operatorKey, "").refused(t, 404, problem.NotFound)
	d.do("PUT", "/v1/admin/plans/pro", operatorKey, `{"limits":{"requests_per_second":0}}`).refused(t, 400, problem.InvalidRequest)
}

func TestDeleteTenant(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	shown := coretest.Value(200, api.Tenant{ID: tenantID, Deletion: &api.TenantDeletion{State: api.DeletionRunning, Removed: 7}})
	d.core.On(hop.DeleteTenant.Path, func(coretest.Item) coretest.Result { return shown })
	d.core.On(hop.GetTenant.Path, func(coretest.Item) coretest.Result { return shown })
	for method, status := range map[string]int{"DELETE": 202, "GET": 200} {
		got := d.do(method, "/v1/admin/tenants/"+tenantID, operatorKey, "")
		if got.status != status || !strings.Contains(string(got.body), `"deletion":{"state":"running","removed":7,`) {
			t.Errorf("%s: %d %s", method, got.status, got.body)
		}
		d.do(method, "/v1/admin/tenants/x", operatorKey, "").refused(t, 404, problem.NotFound)
	}
	if last[hop.ID](d, hop.DeleteTenant.Path).ID != tenantID || last[hop.ID](d, hop.GetTenant.Path).ID != tenantID {
		t.Error("core got another id")
	}
}
