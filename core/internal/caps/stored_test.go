package caps_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A change unsettles only those counts for which it brings a cap.
func TestChangesThatBringACap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	some, more, name := int64(5), int64(7), "mine"
	plan := func(limits api.Limits) func() error {
		return func() error {
			_, err := f.Store.Tenants.PutPlan(f.Context(), name, api.PlanRequest{Limits: limits})
			return err
		}
	}
	patch := func(patch api.TenantPatch) func() error {
		return func() error { _, err := f.Store.Tenants.Patch(f.Context(), f.Tenant, patch); return err }
	}
	settings := func(request api.QueueRequest) func() error {
		return func() error { return f.Store.Queues.Put(f.Context(), f.Tenant, "default", request) }
	}
	free := "free of caps"
	for _, step := range []struct {
		what string
		do   func() error
		want caps.Counter // the counts that are unsettled by it
	}{
		{"a new plan", plan(api.Limits{MaxActive: &some, UserMaxActive: &some}), 0},
		{"the tenant moves to it", patch(api.TenantPatch{Plan: &name}), 0}, // standard has caps
		{"the same again", plan(api.Limits{MaxActive: &some, UserMaxActive: &some}), 0},
		{"another height", plan(api.Limits{MaxActive: &more, UserMaxActive: &some}), 0},
		{"one cap less", plan(api.Limits{UserMaxActive: &some}), 0},
		{"it is back, and another is new", plan(api.Limits{MaxActive: &some, UserMaxActive: &some, MaxRunning: &some}), caps.ActiveTenant | caps.RunningTenant},
		{"an override of what the plan caps", patch(api.TenantPatch{Overrides: &api.Overrides{Limits: api.Limits{MaxActive: &more}}}), 0},
		{"a user's cap that is new", patch(api.TenantPatch{Overrides: &api.Overrides{Users: map[string]api.Limits{"ann": {UserMaxRunning: &some}}}}), caps.RunningUser},
		{"no overrides", patch(api.TenantPatch{Overrides: &api.Overrides{}}), 0},
		{"a name", patch(api.TenantPatch{Name: &name}), 0},
		{"a plan without caps", func() error {
			if _, err := f.Store.Tenants.PutPlan(f.Context(), free, api.PlanRequest{}); err != nil {
				return err
			}
			return patch(api.TenantPatch{Plan: &free})()
		}, 0},
		{"the plan before", patch(api.TenantPatch{Plan: &name}), caps.ActiveTenant | caps.ActiveUser | caps.RunningTenant},
		{"a queue's cap", settings(api.QueueRequest{MaxActive: &some}), caps.ActiveQueue},
		{"another height of it", settings(api.QueueRequest{MaxActive: &more}), 0},
	} {
		f.Exec(`DELETE FROM usage_counts`)
		f.Exec(`INSERT INTO usage_counts (tenant_id, counter, name, opened_at, settled)
			SELECT $1, c, n, now(), true FROM (VALUES (1, ''), (2, 'ann'), (4, 'default'), (8, ''), (16, 'ann'), (32, 'default')) AS v(c, n)`, f.Tenant)
		if step.what == "the tenant moves to it" {
			f.Exec(`UPDATE plans SET limits = '{"max_active":1,"user_max_active":1}' WHERE name = 'standard'`)
		}
		if err := step.do(); err != nil {
			t.Fatal(step.what, err)
		}
		if got := caps.Counter(f.CountOf(`SELECT COALESCE(bit_or(counter), 0) FROM usage_counts WHERE NOT settled`)); got != step.want {
			t.Errorf("%s: unsettled %b, want %b", step.what, got, step.want)
		}
	}
}

// A backlog is taken into a user's count in steps, each of which begins where the last
// one ended, by any core; jobs of others are not scanned.
func TestBackfillContinuesInSteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Fill(12_000, "ann")
	f.Fill(3_000, "bob")
	f.Submit(f.Job(celltest.Of("ann"), celltest.Under(f.UserCap("ann", 100_000))))
	key := f.UserCap("ann", 0).CountKey
	other := celltest.OpenURL(t, f.URL)
	total := int64(0)
	for i := range 3 {
		store := []*cell.Cell{f.Store, other}[i%2]
		if due, err := store.Counts.DueCounts(t.Context(), 10); i == 0 && (err != nil || len(due) != 1 || due[0] != key) {
			t.Fatalf("due: %v (%v)", due, err)
		}
		adopted, more, err := store.Counts.Backfill(t.Context(), key)
		if total += adopted; err != nil || adopted > 5000 || more != (i < 2) {
			t.Fatalf("step %d: %d added, more: %v (%v)", i, adopted, more, err)
		}
	}
	if total != 12_000 {
		t.Errorf("added %d, want 12,000", total)
	}
	if due, err := f.Store.Counts.DueCounts(t.Context(), 10); err != nil || len(due) != 0 {
		t.Errorf("due before every core has refreshed its limits: %v (%v)", due, err)
	}
	f.Exec(`UPDATE usage_counts SET opened_at = opened_at - interval '2 minutes'`)
	f.Backfill(key)
	if stored, err := f.Store.Counts.StoredCounts(t.Context(), caps.CountKey{}, 10); err != nil || len(stored) != 1 || !stored[0].Settled {
		t.Errorf("stored: %+v (%v)", stored, err)
	}
	f.NoDrift()
}

// Of unused counts nothing stays; a user with a job is still counted.
func TestUnusedCountsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	user := func(name string) []func(*submit.NewJob) {
		return []func(*submit.NewJob){celltest.Of(name), celltest.Under(f.UserCap(name, 2))}
	}
	for _, name := range []string{"ann", "bob", "cid"} {
		f.Submit(f.Job(user(name)...))
		if name != "cid" {
			f.End(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
		}
	}
	if got := f.Admitted(f.Job(celltest.Of("dan"), celltest.Under(f.UserCap("dan", 0)))); got != 0 {
		t.Fatal("admitted under a cap of none")
	}
	prune := func() {
		t.Helper()
		if _, _, err := f.Store.Counts.PruneUsage(t.Context(), caps.CountKey{}); err != nil {
			t.Fatal(err)
		}
	}
	prune()
	if n := f.Count("usage_counts"); n != 4 {
		t.Fatalf("%d counts, want 4 so early", n)
	}
	f.Exec(`UPDATE usage_log SET written_at = written_at - interval '2 hours'`)
	f.Exec(`UPDATE usage_counts SET opened_at = opened_at - interval '2 hours'`)
	held := celltest.Connect(t, f.URL)
	if _, err := held.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, f.Store.LockKey(store.LockSubmit, f.Tenant)); err != nil {
		t.Fatal(err)
	}
	prune() // during a submit nothing is deleted
	if n := f.Count("usage_counts"); n != 4 {
		t.Fatalf("%d counts, want 4 while the tenant's lock is held", n)
	}
	if _, err := held.Exec(t.Context(), `SELECT pg_advisory_unlock($1)`, f.Store.LockKey(store.LockSubmit, f.Tenant)); err != nil {
		t.Fatal(err)
	}
	prune()
	if n := f.Count(`usage_log WHERE name <> 'cid'`) + f.Count(`usage_credits WHERE name <> 'cid'`) + f.Count(`usage_counts WHERE name NOT IN ('cid', 'dan')`); n != 0 {
		t.Errorf("%d rows of users without jobs", n)
	}
	if n := f.Count(`usage_log WHERE name = 'cid'`); n == 0 {
		t.Error("a count of one is forgotten")
	}
	stored, err := f.Store.Counts.StoredCounts(t.Context(), caps.CountKey{}, 10)
	if err != nil || len(stored) != 2 || stored[0].Unused || !stored[1].Unused {
		t.Errorf("stored: %+v (%v), want cid and dan, who was never counted", stored, err)
	}
	if got := f.Admitted(f.Jobs(3, user("ann")...)...); got != 2 {
		t.Errorf("admitted %d of a forgotten user, want 2", got)
	}
	f.NoDrift()
}

func TestVerifyFindsDrift(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]string{
		"count":       `INSERT INTO usage_credits SELECT tenant_id, 1, '', -1, pg_current_xact_id() FROM jobs LIMIT 1`,
		"uncounted":   `UPDATE jobs SET counted = 0; DELETE FROM usage_log; UPDATE usage_counts SET settled = true`,
		"not running": `UPDATE jobs SET counted = counted | 8`,
		"lane":        `UPDATE jobs SET lane_id = 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.Submit(f.Jobs(3, celltest.Under(f.ActiveCap(4)))...)
			f.NoDrift()
			if _, err := f.Direct.Exec(t.Context(), harm); err != nil {
				t.Fatal(err)
			}
			drifts, err := f.Store.Counts.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, drift := range drifts {
				if drift.Check == name {
					return
				}
			}
			t.Errorf("found %v", drifts)
		})
	}
}
