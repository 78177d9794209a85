package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// statuses are the codes of results, "" for a success.
func statuses[T any](results []hop.Result[T]) (codes []string) {
	for _, r := range results {
		switch {
		case r.Problem != nil && r.Problem.Status == r.Status:
			codes = append(codes, string(r.Problem.Code))
		case r.Value != nil && r.Status >= 200 && r.Status < 300:
			codes = append(codes, "")
		default:
			codes = append(codes, "neither a value nor a problem")
		}
	}
	return codes
}

// Each item is judged by its own principal, whoever its neighbours are.
func TestPrincipalsOfClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 2 {
		f.submit()
	}
	claim := claimOf(0)
	got := statuses(ask[api.ClaimResponse](f, hop.ClaimJobs.Path,
		item(userOf(f.tenant, "bob"), claim), item(f.tenant, claim), item(operator(), claim), item(platform(), claim),
		item(hop.Principal{}, claim), item(hop.Principal{Kind: hop.PrincipalTenant, Tenant: "nonsense"}, claim),
		item(hop.Principal{Kind: hop.PrincipalTenant, Tenant: tenant.Platform.String()}, claim),
		item(f.tenant, api.ClaimRequest{WorkerID: "w1"})))
	want := "forbidden,,forbidden,,forbidden,forbidden,forbidden,invalid_request"
	if strings.Join(got, ",") != want {
		t.Errorf("claims: %q, want %q", got, want)
	}
}

func TestPrincipalsOfSubmits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	twice := job()
	twice.IDs = append(twice.IDs, twice.IDs[0])
	noID := job()
	noID.IDs[0] = "x"
	badKey := job()
	badKey.Idempotency = &hop.Idempotency{Operation: "submit", Key: "k", Fingerprint: "00"}
	got := statuses(ask[json.RawMessage](f, hop.SubmitJobs.Path,
		item(f.tenant, job()), item(platform(), job()), item(operator(), job()), item(userOf(f.tenant, "bob"), job()),
		item(f.tenant, twice), item(f.tenant, noID), item(f.tenant, badKey), item(f.tenant, hop.SubmitJobsRequest{}), item(f.tenant, job())))
	want := ",forbidden,forbidden,,invalid_request,invalid_request,invalid_request,invalid_request,"
	if strings.Join(got, ",") != want {
		t.Errorf("submits: %q, want %q", got, want)
	}
}

func TestOnlyTheOperatorManages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := uuid.Must(uuid.NewV7()).String()
	create := hop.WithID[api.TenantRequest]{ID: id, Value: api.TenantRequest{Name: "new"}}
	got := statuses(ask[api.Tenant](f, hop.CreateTenant.Path,
		item(f.tenant, create), item(platform(), create), item(hop.Principal{}, create), item(operator(), create), item(operator(), create),
		item(operator(), hop.WithID[api.TenantRequest]{ID: tenant.Platform.String()}),
		item(operator(), hop.WithID[api.TenantRequest]{ID: uuid.NewString(), Value: api.TenantRequest{Name: "x", Plan: new("nonsense")}})))
	if want := "forbidden,forbidden,forbidden,,,invalid_request,invalid_request"; strings.Join(got, ",") != want {
		t.Errorf("creations: %q, want %q", got, want)
	}
	for _, path := range []string{
		hop.ListTenants.Path, hop.PatchTenant.Path, hop.CreateKey.Path, hop.ListKeys.Path, hop.RevokeKey.Path, hop.GetPlan.Path, hop.ListPlans.Path, hop.PutPlan.Path, hop.GetInstallation.Path, hop.ReportProcess.Path,
	} {
		for _, p := range []hop.Principal{f.tenant, platform(), {}} {
			result := ask[json.RawMessage](f, path, item(p, map[string]any{"id": id}))[0]
			if result.Status != http.StatusForbidden {
				t.Errorf("%s as %q: %d", path, p.Kind, result.Status)
			}
		}
	}
}

func TestAdministration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 3 {
		f.newTenant()
	}
	page := one[api.Page[api.Tenant]](f, hop.ListTenants.Path, operator(), hop.PageRequest{PageSize: 3})
	if len(page.Items) != 3 || page.NextPageToken == nil {
		t.Fatalf("first page: %+v", page)
	}
	rest := one[api.Page[api.Tenant]](f, hop.ListTenants.Path, operator(), hop.PageRequest{PageSize: 3, PageToken: *page.NextPageToken})
	if len(rest.Items) != 1 || rest.NextPageToken != nil {
		t.Errorf("second page: %+v", rest)
	}
	bad := ask[api.Page[api.Tenant]](f, hop.ListTenants.Path, item(operator(), hop.PageRequest{PageSize: 3, PageToken: "x"}))[0]
	if bad.Problem == nil || bad.Problem.Code != problem.InvalidRequest {
		t.Errorf("a token of nobody's: %+v", bad)
	}

	create := hop.CreateKeyRequest{
		KeyID: "k1", Kind: hop.PrincipalTenant, SecretHMAC: make([]byte, 32), Tenant: f.tenant.Tenant, Scopes: []string{api.ScopeRead},
	}
	one[api.Key](f, hop.CreateKey.Path, operator(), create)
	create.KeyID, create.Tenant = "k2", uuid.NewString()
	if got := ask[api.Key](f, hop.CreateKey.Path, item(operator(), create))[0]; got.Status != http.StatusNotFound {
		t.Errorf("a key for nobody: %+v", got)
	}
	lookup := hop.ID{ID: "k1"}
	if key := one[hop.KeyRecord](f, hop.LookUpKey.Path, hop.Principal{}, lookup); key.Tenant != f.tenant.Tenant || key.Plan == nil {
		t.Errorf("key = %+v", key)
	}
	keys := one[api.Page[api.Key]](f, hop.ListKeys.Path, operator(), hop.PageFor{For: f.tenant.Tenant, PageRequest: hop.PageRequest{PageSize: 10}})
	if len(keys.Items) != 1 {
		t.Errorf("keys: %+v", keys)
	}
	for range 2 {
		one[struct{}](f, hop.RevokeKey.Path, operator(), lookup)
	}
	if got := ask[hop.KeyRecord](f, hop.LookUpKey.Path, item(hop.Principal{}, lookup))[0]; got.Status != http.StatusNotFound {
		t.Errorf("a revoked key: %+v", got)
	}

	plan := hop.Put[api.PlanRequest]{Name: "big"}
	plan.Value.Limits.MaxActive = new(int64(9))
	one[api.Plan](f, hop.PutPlan.Path, operator(), plan)
	if got := one[api.Plan](f, hop.GetPlan.Path, operator(), hop.Name{Name: "big"}); *got.Limits.MaxActive != 9 {
		t.Errorf("plan = %+v", got)
	}
	for _, name := range []string{"zero", "small"} {
		one[api.Plan](f, hop.PutPlan.Path, operator(), hop.Put[api.PlanRequest]{Name: name})
	}
	var names []string
	for token := ""; ; {
		page := one[api.Page[api.Plan]](f, hop.ListPlans.Path, operator(), hop.PageRequest{PageSize: 2, PageToken: token})
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
	patch := hop.WithID[api.TenantPatch]{ID: f.tenant.Tenant, Value: api.TenantPatch{Plan: new("big")}}
	if got := one[api.Tenant](f, hop.PatchTenant.Path, operator(), patch); got.Plan != "big" {
		t.Errorf("tenant = %+v", got)
	}
	patch.ID = uuid.NewString()
	if got := ask[api.Tenant](f, hop.PatchTenant.Path, item(operator(), patch))[0]; got.Status != http.StatusNotFound {
		t.Errorf("a patch of nobody: %+v", got)
	}
}

// A tenant sees its caps and one user's; a user-bound key sees its own user's,
// whoever it names. New limits are in force with the answer that sets them.
func TestCapsInUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	patch := hop.WithID[api.TenantPatch]{ID: f.tenant.Tenant}
	patch.Value.Overrides = &api.Overrides{Limits: api.Limits{MaxActive: new(int64(2)), UserMaxActive: new(int64(1))}}
	one[api.Tenant](f, hop.PatchTenant.Path, operator(), patch)
	bob := userOf(f.tenant, "bob")
	submit := hop.SubmitJobsRequest{IDs: []string{uuid.Must(uuid.NewV7()).String()}, Jobs: []api.SubmitRequest{{Type: "t", User: new("bob")}}}
	one[json.RawMessage](f, hop.SubmitJobs.Path, bob, submit)
	submit.IDs[0] = uuid.Must(uuid.NewV7()).String()
	if got := ask[json.RawMessage](f, hop.SubmitJobs.Path, item(bob, submit))[0]; got.Problem == nil || got.Problem.Code != problem.ActiveCapReached {
		t.Errorf("over the user's cap: %+v", got)
	}
	for name, ask := range map[string]struct {
		who  hop.Principal
		user string
		want string
	}{
		"tenant":        {f.tenant, "", "tenant 1/2"},
		"tenant of ann": {f.tenant, "ann", "tenant 1/2 user 0/1"},
		"bob":           {bob, "", "tenant 1/2 user 1/1"},
		"bob names ann": {bob, "ann", "tenant 1/2 user 1/1"},
	} {
		var said []string
		for _, use := range one[hop.CapsResponse](f, hop.ListCaps.Path, ask.who, hop.CapsRequest{User: ask.user}).Caps {
			said = append(said, fmt.Sprintf("%s %d/%d", use.Scope, use.Used, use.Limit))
		}
		if got := strings.Join(said, " "); got != ask.want {
			t.Errorf("%s: %q, want %q", name, got, ask.want)
		}
	}
	if got := ask[hop.CapsResponse](f, hop.ListCaps.Path, item(platform(), hop.CapsRequest{}))[0]; got.Status != http.StatusForbidden {
		t.Errorf("the platform: %+v", got)
	}
}
