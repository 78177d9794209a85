package caps_test

import (
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
)

// credits gives n back to the tenant's count, and takes n again, in many rows.
func (f *fixture) credits(n int) {
	f.Helper()
	for _, sign := range []int{-1, 1} {
		f.Exec(`INSERT INTO usage_credits SELECT $1, 1, '', $2, pg_current_xact_id() FROM generate_series(1, $3)`, f.Tenant, sign, n)
	}
}

const finishSQL = `
WITH gone AS (DELETE FROM jobs WHERE id = (SELECT id FROM jobs LIMIT 1) RETURNING tenant_id)
INSERT INTO usage_credits (tenant_id, counter, name, n, xid) SELECT tenant_id, 1, '', -1, pg_current_xact_id() FROM gone`

// What a count takes to read does not grow with the credits that an old transaction
// keeps from being folded, and shrinks again when it has ended.
func TestCountWithAnOldWriter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	limits := celltest.Under(f.ActiveCap(100))
	f.Submit(f.Job(limits))
	recorded := &celltest.Statements{}
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 2, PoolWait: 5 * time.Second, Tracer: recorded}})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Submits.Submit(t.Context(), []submit.Submission{{Tenant: f.Tenant, Jobs: f.Jobs(1, limits)}}); err != nil {
		t.Fatal(err)
	}
	pages := func() int {
		t.Helper()
		for sql, args := range recorded.Seen() {
			if strings.Contains(sql, "FROM usage_credits") {
				plan, _ := celltest.Explain(t, f.Direct, sql, args)
				return plan.Hit + plan.Read
			}
		}
		t.Fatal("no statement reads a count")
		return 0
	}
	for _, setting := range []string{"plan_cache_mode = force_generic_plan", "enable_seqscan = off", "enable_bitmapscan = off"} {
		f.Exec("SET " + setting)
	}
	before := pages()
	old := f.OpenWriter()
	f.credits(10_000)
	f.Submit(f.Job(limits))
	if now := pages(); now > before+50 {
		t.Errorf("%d pages with 20,000 credits, %d without", now, before)
	}
	f.NoDrift()

	late := f.OpenWriter()
	if _, err := late.Exec(t.Context(), finishSQL); err != nil {
		t.Fatal(err)
	}
	f.credits(100)
	f.Submit(f.Job(limits)) // its mark does not show the finish
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.NoDrift()
	f.Submit(f.Job(limits))
	f.NoDrift()
	if err := old.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A transaction of another test may hold the rest for as long as it takes.
	celltest.EventuallyWithin(t, 5*time.Minute, "all is folded", func() bool {
		f.Submit(f.Job(limits))
		f.NoDrift()
		if _, _, err := f.Store.Counts.PruneUsage(t.Context(), caps.CountKey{}); err != nil {
			t.Fatal(err)
		}
		f.Exec(finishSQL)
		return f.Count(`usage_log WHERE seen IS NOT NULL`) == 0 && f.Count(`usage_credits`) < 100
	})
	f.NoDrift()
	if f.Admitted(f.Jobs(101, limits)...); f.Live() != 100 {
		t.Errorf("%d live under a cap of 100", f.Live())
	}
}
