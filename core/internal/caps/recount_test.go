package caps_test

import (
	"errors"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Counts that went wrong are reset: caps hold as before, and jobs that run are in
// the counts of running ones.
func TestRecount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(4))
	f.Submit(f.Jobs(3, limits)...)
	running := f.ClaimOne()
	if _, err := f.Direct.Exec(t.Context(), `
		INSERT INTO usage_credits SELECT tenant_id, 1, '', -2, pg_current_xact_id() FROM jobs LIMIT 1;
		UPDATE jobs SET counted = 0 WHERE state = 'running'`); err != nil {
		t.Fatal(err)
	}
	// The bound on calls is not for what takes minutes with millions of jobs.
	one, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 1, PoolWait: time.Second, CallTime: time.Nanosecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()

	var run *caps.CoresRunError
	if _, err := one.Counts.Recount(t.Context()); !errors.As(err, &run) || len(run.Sessions) < 1 {
		t.Fatalf("while a core runs: %v", err)
	}
	if drifts, err := f.Store.Counts.Verify(t.Context()); err != nil || len(drifts) == 0 {
		t.Fatalf("refused, and yet: %v %v", drifts, err)
	}
	f.Store.Close()
	if jobs, err := one.Counts.Recount(t.Context()); err != nil || jobs != 2 { // the third was in no count
		t.Fatalf("%d jobs, %v", jobs, err)
	}

	f.Store = celltest.OpenURL(t, f.URL)
	f.NoDrift()
	if got := f.Admitted(f.Jobs(3, limits)...); got != 1 {
		t.Errorf("admitted %d, want 1 in addition to 3", got)
	}
	f.End(jobs.Ending{Lease: running.Lease(), Kind: api.KindComplete})
	if got := f.Admitted(f.Jobs(3, limits)...); got != 1 {
		t.Errorf("admitted %d, want 1 for the one that has ended", got)
	}
	f.NoDrift()
}

// A restore of a large database takes longer than a call may.
func TestForeignCountersTakeTheirTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Jobs(3, celltest.Under(f.ActiveCap(4)))...)
	if _, err := f.Direct.Exec(t.Context(), `UPDATE usage_log SET bound = '9000000000000'`); err != nil {
		t.Fatal(err)
	}
	one, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 1, PoolWait: time.Second, CallTime: time.Nanosecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if err := one.Counts.ResetForeignCounters(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.NoDrift()
}

// Whoever has read a count, or is about to change a job, is waited for.
func TestRecountWaitsForWhoUsesTheTables(t *testing.T) {
	t.Parallel()
	for _, using := range []string{
		`SELECT FROM usage_log`, `SELECT FROM usage_credits`, `SELECT FROM usage_counts`, `LOCK TABLE jobs IN ROW SHARE MODE`,
	} {
		t.Run(using, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.Submit(f.Jobs(3, celltest.Under(f.ActiveCap(4)))...)
			f.Store.Close()
			other := celltest.Connect(t, f.URL)
			if _, err := other.Exec(t.Context(), `BEGIN; `+using); err != nil {
				t.Fatal(err)
			}
			one, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 1, PoolWait: time.Second}})
			if err != nil {
				t.Fatal(err)
			}
			defer one.Close()
			done := make(chan error, 1)
			go func() {
				_, err := one.Counts.Recount(t.Context())
				done <- err
			}()
			celltest.Eventually(t, "it waits", func() bool {
				return f.CountOf(`SELECT count(*)
					FROM pg_locks JOIN pg_class c ON c.oid = relation JOIN pg_database d ON d.oid = database AND d.datname = current_database()
					WHERE NOT granted AND c.relname IN ('jobs', 'usage_log', 'usage_credits', 'usage_counts')`) == 1
			})
			if _, err := other.Exec(t.Context(), `COMMIT`); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
