package administration_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestAdministration(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	for range 3 {
		f.NewTenant()
	}
	page := calltest.One[api.Page[api.Tenant]](f, hop.ListTenants.Path, calltest.Operator(), hop.PageRequest{PageSize: 3})
	if len(page.Items) != 3 || page.NextPageToken == nil {
		t.Fatalf("first page: %+v", page)
	}
	rest := calltest.One[api.Page[api.Tenant]](f, hop.ListTenants.Path, calltest.Operator(), hop.PageRequest{PageSize: 3, PageToken: *page.NextPageToken})
	if len(rest.Items) != 1 || rest.NextPageToken != nil {
		t.Errorf("second page: %+v", rest)
	}
	bad := calltest.Ask[api.Page[api.Tenant]](f, hop.ListTenants.Path, calltest.Item(calltest.Operator(), hop.PageRequest{PageSize: 3, PageToken: "x"}))[0]
	if bad.Problem == nil || bad.Problem.Code != problem.InvalidRequest {
		t.Errorf("a token that the server did not issue: %+v", bad)
	}

	create := hop.CreateKeyRequest{
		KeyID: "k1", Kind: hop.PrincipalTenant, SecretHMAC: make([]byte, 32), Tenant: f.Tenant.Tenant, Scopes: []string{api.ScopeRead},
	}
	calltest.One[api.Key](f, hop.CreateKey.Path, calltest.Operator(), create)
	create.KeyID, create.Tenant = "k2", uuid.NewString()
	if got := calltest.Ask[api.Key](f, hop.CreateKey.Path, calltest.Item(calltest.Operator(), create))[0]; got.Status != http.StatusNotFound {
		t.Errorf("a key for nobody: %+v", got)
	}
	lookup := hop.ID{ID: "k1"}
	if key := calltest.One[hop.KeyRecord](f, hop.LookUpKey.Path, hop.Principal{}, lookup); key.Tenant != f.Tenant.Tenant || key.Plan == nil {
		t.Errorf("key = %+v", key)
	}
	keys := calltest.One[api.Page[api.Key]](f, hop.ListKeys.Path, calltest.Operator(), hop.PageFor{For: f.Tenant.Tenant, PageRequest: hop.PageRequest{PageSize: 10}})
	if len(keys.Items) != 1 {
		t.Errorf("keys: %+v", keys)
	}
	for range 2 {
		calltest.One[struct{}](f, hop.RevokeKey.Path, calltest.Operator(), lookup)
	}
	if got := calltest.Ask[hop.KeyRecord](f, hop.LookUpKey.Path, calltest.Item(hop.Principal{}, lookup))[0]; got.Status != http.StatusNotFound {
		t.Errorf("a revoked key: %+v", got)
	}

	plan := hop.Put[api.PlanRequest]{Name: "big"}
	plan.Value.Limits.MaxActive = new(int64(9))
	calltest.One[api.Plan](f, hop.PutPlan.Path, calltest.Operator(), plan)
	if got := calltest.One[api.Plan](f, hop.GetPlan.Path, calltest.Operator(), hop.Name{Name: "big"}); *got.Limits.MaxActive != 9 {
		t.Errorf("plan = %+v", got)
	}
	for _, name := range []string{"zero", "small"} {
		calltest.One[api.Plan](f, hop.PutPlan.Path, calltest.Operator(), hop.Put[api.PlanRequest]{Name: name})
	}
	var names []string
	for token := ""; ; {
		page := calltest.One[api.Page[api.Plan]](f, hop.ListPlans.Path, calltest.Operator(), hop.PageRequest{PageSize: 2, PageToken: token})
		for _, plan := range page.Items {
			names = append(names, plan.Name)
			if plan.Name == "big" && *plan.Limits.MaxActive != 9 {
				t.Errorf("listed: %+v", plan)
			}
		}
		if page.NextPageToken == nil {
			break
		}
		token = *page.NextPageToken
	}
	if !slices.IsSorted(names) || !slices.Contains(names, "big") || !slices.Contains(names, "small") || !slices.Contains(names, "zero") || len(names) != len(slices.Compact(names)) {
		t.Errorf("plans = %q", names)
	}
	patch := hop.WithID[api.TenantPatch]{ID: f.Tenant.Tenant, Value: api.TenantPatch{Plan: new("big")}}
	if got := calltest.One[api.Tenant](f, hop.PatchTenant.Path, calltest.Operator(), patch); got.Plan != "big" {
		t.Errorf("tenant = %+v", got)
	}
	patch.ID = uuid.NewString()
	if got := calltest.Ask[api.Tenant](f, hop.PatchTenant.Path, calltest.Item(calltest.Operator(), patch))[0]; got.Status != http.StatusNotFound {
		t.Errorf("a patch of nobody: %+v", got)
	}
}

// A tenant sees its caps and one user's; a user-bound key sees its own user's,
// even if it names another one. New limits are in force with the answer that sets them.
func TestCapsInUse(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	patch := hop.WithID[api.TenantPatch]{ID: f.Tenant.Tenant}
	patch.Value.Overrides = &api.Overrides{Limits: api.Limits{MaxActive: new(int64(2)), UserMaxActive: new(int64(1))}}
	calltest.One[api.Tenant](f, hop.PatchTenant.Path, calltest.Operator(), patch)
	bob := calltest.UserOf(f.Tenant, "bob")
	submit := hop.SubmitJobsRequest{IDs: []string{uuid.Must(uuid.NewV7()).String()}, Jobs: []api.SubmitRequest{{Type: "t", User: new("bob")}}}
	calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, bob, submit)
	submit.IDs[0] = uuid.Must(uuid.NewV7()).String()
	if got := calltest.Ask[json.RawMessage](f, hop.SubmitJobs.Path, calltest.Item(bob, submit))[0]; got.Problem == nil || got.Problem.Code != problem.ActiveCapReached {
		t.Errorf("over the user's cap: %+v", got)
	}
	for name, ask := range map[string]struct {
		who  hop.Principal
		user string
		want string
	}{
		"tenant":        {f.Tenant, "", "tenant 1/2"},
		"tenant of ann": {f.Tenant, "ann", "tenant 1/2 user 0/1"},
		"bob":           {bob, "", "tenant 1/2 user 1/1"},
		"bob names ann": {bob, "ann", "tenant 1/2 user 1/1"},
	} {
		var said []string
		for _, use := range calltest.One[hop.CapsResponse](f, hop.ListCaps.Path, ask.who, hop.CapsRequest{User: ask.user}).Caps {
			said = append(said, fmt.Sprintf("%s %d/%d", use.Scope, use.Used, use.Limit))
		}
		if got := strings.Join(said, " "); got != ask.want {
			t.Errorf("%s: %q, want %q", name, got, ask.want)
		}
	}
	if got := calltest.Ask[hop.CapsResponse](f, hop.ListCaps.Path, calltest.Item(calltest.Platform(), hop.CapsRequest{}))[0]; got.Status != http.StatusForbidden {
		t.Errorf("the platform: %+v", got)
	}
}
