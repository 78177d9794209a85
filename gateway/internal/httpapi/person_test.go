package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/gateway/internal/inner"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ann is a person with these scopes, as the console has signed her in.
func ann(scopes ...string) hop.Principal {
	return hop.Principal{Kind: hop.PrincipalTenant, Tenant: tenantID, Scopes: scopes, KeyID: "oidc:ann@example.com/abcdefgh"}
}

// newPersons is a door in front of which people may act for the tenant.
func newPersons(t *testing.T) *door {
	t.Helper()
	d := newDoor(t, func(o *httpapi.Options) {
		o.Auth = auth.New(auth.Options{KeySecret: []byte(keySecret), OperatorKey: operatorKey, Lookup: o.Core.LookUpKey, LookupTenant: o.Core.LookUpTenant})
	})
	d.core.AddTenant(hop.KeyRecord{Tenant: tenantID, TenantName: "acme", Plan: &api.Plan{Name: "free"}})
	return d
}

// as asks in this process, for a person.
func (d *door) as(who hop.Principal, method, path, body string) answer {
	d.t.Helper()
	request := httptest.NewRequestWithContext(inner.AsPerson(d.t.Context(), who), method, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	got := inner.Ask(d.server.Handler(), request)
	return answer{got.Status, got.Header(), got.Body.Bytes()}
}

// A person acts with the scopes of their groups, core and the log line have the person's name, and what is a key's is refused.
func TestAPersonActsInThisProcess(t *testing.T) {
	t.Parallel()
	d := newPersons(t)
	var who api.Whoami
	d.as(ann("read", "manage"), "GET", "/v1/whoami", "").into(t, &who)
	if *who.Tenant != tenantID || *who.TenantName != "acme" || *who.Plan != "free" || who.KeyID != "oidc:ann@example.com/abcdefgh" || len(who.Scopes) != 2 {
		t.Errorf("whoami: %+v", who)
	}
	if log := d.log.String(); !strings.Contains(log, `"key_id":"oidc:ann@example.com/abcdefgh"`) {
		t.Errorf("the log does not name the person: %s", log)
	}
	d.core.On(hop.PauseQueue.Path, func(item coretest.Item) coretest.Result {
		if item.Principal.KeyID != who.KeyID || item.Principal.Tenant != tenantID {
			t.Errorf("core is asked as %+v", item.Principal)
		}
		return coretest.Value(http.StatusOK, api.Queue{Name: "mails"})
	})
	if got := d.as(ann("manage"), "POST", "/v1/queues/mails/pause", ""); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
	d.as(ann("read"), "POST", "/v1/queues/mails/pause", "").refused(t, 403, problem.Forbidden)
	all := ann(api.Scopes()...)
	for _, route := range []string{"POST /v1/jobs/" + jobID + "/events-token", "POST /v1/jobs/" + jobID + "/signal-links", "DELETE /v1/sessions"} {
		method, path, _ := strings.Cut(route, " ")
		if p := d.as(all, method, path, `{}`).refused(t, 403, problem.Forbidden); !strings.Contains(p.Detail, "needs an API key") {
			t.Errorf("%s: %s", route, p.Detail)
		}
	}
	d.as(all, "GET", "/v1/admin/tenants", "").refused(t, 403, problem.Forbidden)
	gone := all
	gone.Tenant = "0190a000-0000-7000-8000-00000000000b"
	if p := d.as(gone, "GET", "/v1/whoami", "").refused(t, 403, problem.Forbidden); !strings.Contains(p.Detail, "does not exist") {
		t.Error(p.Detail)
	}
}

// Nothing that is sent from outside makes a request one of a person.
func TestNobodyIsAPersonFromOutside(t *testing.T) {
	t.Parallel()
	d := newPersons(t)
	principal, err := json.Marshal(ann("read"))
	if err != nil {
		t.Fatal(err)
	}
	credentials := []string{"oidc:ann@example.com/abcdefgh", "tenant " + tenantID, tenantID, string(principal)}
	for _, value := range credentials {
		for _, header := range []string{
			"Authorization", "Authorization: Bearer", "Cookie", "Forwarded", "Forgequeue-Assertion", "Forgequeue-Owner", "Forgequeue-Principal", "Forgequeue-Person",
			"X-Correlation-Id", "X-Forwarded-For", "X-Forwarded-User", "X-Remote-User", "Traceparent", "Baggage",
		} {
			name, scheme, _ := strings.Cut(header, ":")
			got := d.do("GET", "/v1/whoami?token="+tenantID, "", "", name, strings.TrimSpace(scheme+" "+value))
			got.refused(t, 401, problem.Unauthenticated)
		}
	}
	if asked := d.core.Requests(hop.LookUpTenant.Path); len(asked) > 0 {
		t.Errorf("a tenant was looked up: %s", asked[0].Body)
	}
}
