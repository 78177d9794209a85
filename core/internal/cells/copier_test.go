package cells_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestMain(m *testing.M) { celltest.Main(m) }

func TestCopies(t *testing.T) {
	t.Parallel()
	home, other := celltest.Open(t), celltest.Open(t)
	places := cells.NewPlaces(home, []string{"home", "other", "third"}, nil)
	copier := cells.NewCopier(home, places, slog.New(slog.DiscardHandler))
	changed := 0
	to := cells.Target{Name: "other", Index: 1, Store: other, Changed: func(context.Context) { changed++ }}
	compare := func() {
		t.Helper()
		if err := copier.Compare(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
	own, at3, ofHome := uuid.New(), uuid.New(), uuid.New()
	for id, name := range map[tenant.ID]string{own: "other", at3: "third", ofHome: ""} {
		if _, err := home.Tenants.CreateIn(t.Context(), name, id, api.TenantRequest{Name: "t"}); err != nil {
			t.Fatal(err)
		}
	}
	key := func(id string, of *tenant.ID) {
		t.Helper()
		request := hop.CreateKeyRequest{KeyID: id, Kind: hop.PrincipalPlatform, SecretHMAC: make([]byte, 32), Scopes: []string{}}
		if of != nil {
			request.Kind, request.Tenant = hop.PrincipalTenant, of.String()
		}
		if _, err := home.Keys.Create(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	key("aaaaaaaaaaaa", nil)
	key("bbbbbbbbbbbb", &own)
	key("cccccccccccc", &at3)
	compare()
	has := func(ids ...string) {
		t.Helper()
		for _, id := range []string{"aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"} {
			want := false
			for _, one := range ids {
				want = want || one == id
			}
			if _, err := other.Keys.Lookup(t.Context(), id); (err == nil) != want {
				t.Errorf("key %s: %v", id, err)
			}
		}
	}
	has("aaaaaaaaaaaa", "bbbbbbbbbbbb")
	if found, err := other.Tenants.Copies(t.Context(), []tenant.ID{own, at3, ofHome}); err != nil || len(found) != 1 || found[0].ID != own {
		t.Errorf("copies: %+v, %v", found, err)
	}
	if cell, known, sure := places.Known(own); !known || !sure || cell != 1 {
		t.Errorf("place: %d, %v, %v", cell, known, sure)
	}
	if cell, err := places.Find(t.Context(), at3); err != nil || cell != 2 {
		t.Errorf("found: %d, %v", cell, err)
	}

	// what is as it should be is not written
	before := changed
	compare()
	if changed != before {
		t.Error("a comparison without a difference copied")
	}
	// a change, and one that somebody else made to a copy
	if _, err := home.Tenants.Patch(t.Context(), own, api.TenantPatch{Plan: new("free"), Overrides: &api.Overrides{Limits: api.Limits{MaxActive: new(int64(7))}}}); err != nil {
		t.Fatal(err)
	}
	if err := home.Keys.Revoke(t.Context(), "aaaaaaaaaaaa"); err != nil {
		t.Fatal(err)
	}
	compare()
	limits, err := other.Tenants.LimitsOf(t.Context(), own)
	if err != nil || len(limits) != 1 || limits[0].Plan != "free" || limits[0].Overrides.MaxActive == nil || *limits[0].Overrides.MaxActive != 7 {
		t.Errorf("limits: %+v, %v", limits, err)
	}
	has("bbbbbbbbbbbb")
	if _, err := other.Tenants.Patch(t.Context(), own, api.TenantPatch{Plan: new("unlimited")}); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Tenants.PutPlan(t.Context(), "free", api.PlanRequest{}); err != nil {
		t.Fatal(err)
	}
	compare()
	if limits, err = other.Tenants.LimitsOf(t.Context(), own); err != nil || limits[0].Plan != "free" {
		t.Errorf("the copy is not repaired: %+v, %v", limits, err)
	}
	if plan, err := other.Tenants.GetPlan(t.Context(), "free"); err != nil || plan.Limits.UserMaxRunning == nil {
		t.Errorf("the plan is not repaired: %+v, %v", plan, err)
	}
	// a deletion
	if _, err := home.Tenants.Delete(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	compare()
	if limits, err = other.Tenants.LimitsOf(t.Context(), own); err != nil || !limits[0].Deleting {
		t.Errorf("the deletion is not copied: %+v, %v", limits, err)
	}
	has()
}

// A copy that adds a cap makes the counts of the jobs that there are unsettled, as a change by the
// operator does: otherwise these jobs would not be counted.
func TestACopyThatAddsACap(t *testing.T) {
	t.Parallel()
	home, f := celltest.Open(t), celltest.NewFixture(t)
	copier := cells.NewCopier(home, cells.NewPlaces(home, []string{"home", "other"}, nil), slog.New(slog.DiscardHandler))
	to := cells.Target{Name: "other", Index: 1, Store: f.Store, Changed: func(context.Context) {}}
	if _, err := home.Tenants.CreateIn(t.Context(), "other", f.Tenant, api.TenantRequest{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	if _, err := home.Tenants.PutPlan(t.Context(), "own", api.PlanRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := home.Tenants.Patch(t.Context(), f.Tenant, api.TenantPatch{Plan: new("own")}); err != nil {
		t.Fatal(err)
	}
	copied := func() {
		t.Helper()
		if err := copier.Compare(t.Context(), to); err != nil {
			t.Fatal(err)
		}
	}
	copied()
	settle := func() {
		t.Helper()
		if _, err := f.Direct.Exec(t.Context(), `
INSERT INTO usage_counts (tenant_id, counter, name, opened_at, settled) VALUES ($1, $2, '', now(), true)
ON CONFLICT (tenant_id, counter, name) DO UPDATE SET settled = true`, f.Tenant, caps.ActiveTenant); err != nil {
			t.Fatal(err)
		}
	}
	settled := func(what string, want bool) {
		t.Helper()
		var is bool
		if err := f.Direct.QueryRow(t.Context(), `SELECT settled FROM usage_counts WHERE tenant_id = $1`, f.Tenant).Scan(&is); err != nil || is != want {
			t.Errorf("%s: settled is %v, %v", what, is, err)
		}
	}
	patch := func(limits api.Limits) {
		t.Helper()
		if _, err := home.Tenants.Patch(t.Context(), f.Tenant, api.TenantPatch{Overrides: &api.Overrides{Limits: limits}}); err != nil {
			t.Fatal(err)
		}
		copied()
	}
	settle()
	patch(api.Limits{MaxRunning: new(int64(3))})
	settled("another cap", true)
	patch(api.Limits{MaxActive: new(int64(3))})
	settled("a cap", false)
	settle()
	patch(api.Limits{MaxActive: new(int64(4))})
	settled("a higher cap", true)
	patch(api.Limits{})
	settle()
	if _, err := home.Tenants.PutPlan(t.Context(), "own", api.PlanRequest{Limits: api.Limits{MaxActive: new(int64(5))}}); err != nil {
		t.Fatal(err)
	}
	copied()
	settled("a cap of the plan", false)
}
