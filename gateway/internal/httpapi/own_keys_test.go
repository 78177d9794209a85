package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// A key that was made by a key with the scope admin is valid at once, and not once it is revoked.
func TestOwnKeys(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	admin := d.key("admin")
	d.core.On(hop.CreateKey.Path, func(item coretest.Item) coretest.Result {
		var r hop.CreateKeyRequest
		if err := json.Unmarshal(item.Request, &r); err != nil {
			return coretest.Refuse(problem.InvalidJSON, err.Error())
		}
		if item.Principal.Tenant != tenantID || !slices.Equal(item.Principal.Scopes, []string{"admin"}) || r.Tenant != "" {
			t.Errorf("core is asked %+v as %+v", r, item.Principal)
		}
		d.core.AddKey(hop.KeyRecord{KeyID: r.KeyID, Kind: r.Kind, SecretHMAC: r.SecretHMAC, Tenant: item.Principal.Tenant, Scopes: r.Scopes})
		return coretest.Value(http.StatusOK, api.Key{KeyID: r.KeyID, Tenant: &item.Principal.Tenant, Scopes: r.Scopes, CreatedAt: api.At(time.Now())})
	})
	var made api.NewKey
	got := d.do("POST", "/v1/keys", admin, `{"scopes":["read","admin"]}`)
	got.into(t, &made)
	parsed, err := auth.Parse(made.Secret)
	if got.status != 201 || err != nil || parsed.ID != made.KeyID {
		t.Fatalf("%d %s %v", got.status, got.body, err)
	}
	if all := d.core.Requests(hop.CreateKey.Path); strings.Contains(string(all[0].Body), parsed.Secret) {
		t.Error("core gets the secret")
	}
	if got := d.do("GET", "/v1/whoami", made.Secret, ""); got.status != 200 {
		t.Errorf("the new key: %d", got.status)
	}
	for body, field := range map[string]string{
		`{"scopes":["read","x"]}`: "scopes[1]", `{"scopes":["admin"],"user":"bob"}`: "scopes[0]", `{"scopes":["read"],"expires_at":"2020-01-01T00:00:00Z"}`: "expires_at",
	} {
		if p := d.do("POST", "/v1/keys", admin, body).refused(t, 400, problem.InvalidRequest); p.Errors[0].Field != field {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
	d.do("POST", "/v1/keys", admin, `{"scopes":["read"],"tenant":"`+tenantID+`"}`).refused(t, 400, problem.UnknownField)

	d.core.On(hop.ListKeys.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(http.StatusOK, api.Page[api.Key]{Items: []api.Key{made.Key}})
	})
	got = d.do("GET", "/v1/keys?page_size=7", admin, "")
	if page := last[hop.PageFor](d, hop.ListKeys.Path); got.status != 200 || page.PageSize != 7 || page.For != "" || strings.Contains(string(got.body), `"key":`) {
		t.Errorf("%d %s %+v", got.status, got.body, page)
	}
	d.do("GET", "/v1/keys?tenant="+tenantID, admin, "").refused(t, 400, problem.InvalidRequest)

	d.revoking()
	for range 2 {
		if got := d.do("DELETE", "/v1/keys/"+made.KeyID, admin, ""); got.status != 204 || len(got.body) != 0 {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	d.do("GET", "/v1/whoami", made.Secret, "").refused(t, 401, problem.Unauthenticated)
	d.do("DELETE", "/v1/keys/bad", admin, "").refused(t, 404, problem.NotFound)
	d.core.On(hop.RevokeKey.Path, func(coretest.Item) coretest.Result {
		return coretest.Refuse(problem.Forbidden, "A key cannot revoke itself.")
	})
	d.do("DELETE", "/v1/keys/"+made.KeyID, admin, "").refused(t, 403, problem.Forbidden)
}
