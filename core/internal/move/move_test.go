package move_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/move"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Whatever a tenant has is in the other cell afterwards, and nothing of it in the old one; then all the way back. Other
// tenants keep theirs.
func TestAllOfATenantMoves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.capped()
	stays := f.NewTenant()
	f.Inhabit(f.Tenant)
	f.Inhabit(stays)
	f.Exec(`INSERT INTO redrive_samples (redrive_id, job_id, state, redrives) SELECT id, gen_random_uuid(), 'chosen', 0 FROM redrives WHERE tenant_id = $1`, f.Tenant)
	f.Exec(`INSERT INTO audit_log (id, tenant_id, actor_kind, action, detail, at) VALUES (gen_random_uuid(), $1, 'tenant', 'queue.put', '{}', now())`, f.Tenant)
	running := f.CountOf(`SELECT count(*) FROM jobs WHERE tenant_id = $1 AND state = 'running'`, f.Tenant)
	if running == 0 {
		t.Fatal("no job runs")
	}
	had, others := contents(f.Fixture, f.Tenant), contents(f.Fixture, stays)
	for table, rows := range had {
		if len(rows) == 0 {
			t.Errorf("the tenant has no %s: the test shows nothing of it", table)
		}
	}
	for _, to := range []string{other, "", other} {
		f.mustMove(to)
		source, target := f.cells(to)
		has := contents(target, f.Tenant)
		for table, rows := range had {
			if table != "audit_log" && !slices.Equal(has[table], rows) {
				t.Errorf("to %q: %s are\n%v\nand were\n%v", to, table, has[table], rows)
			}
		}
		for table, rows := range contents(source, f.Tenant) {
			if len(rows) > 0 && (table != "audit_log" || to == "") {
				t.Errorf("to %q: %d %s are left", to, len(rows), table)
			}
		}
		for table, rows := range contents(f.Fixture, stays) {
			if !slices.Equal(rows, others[table]) {
				t.Errorf("to %q: another tenant's %s have changed", to, table)
			}
		}
		sound(source, "the source after a move to "+to)
		sound(target, "the target after a move to "+to)
		if n := f.CountOf(`SELECT count(*) FROM audit_log WHERE tenant_id = $1 AND action = 'queue.put'`, f.Tenant); n < 1 {
			t.Error("the home cell has lost an audit entry")
		}
	}
	if n := f.CountOf(`SELECT count(*) FROM tenant_moves`) + f.there.CountOf(`SELECT count(*) FROM tenant_changes`); n > 0 {
		t.Errorf("%d rows of moves are left", n)
	}
}

// Every table of the schema is known to a move, or is of no tenant's jobs.
func TestEveryTableIsKnown(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	rows, err := f.Direct.Query(t.Context(), `SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	directory := []string{"plans", "tenants", "api_keys", "this_cell", "processes", "verification", "ledger_days", "start_rates", "tenant_moves", "tenant_fences", "tenant_changes", "goose_db_version"}
	for _, name := range all {
		if slices.Contains(move.TableNames(), name) == slices.Contains(directory, name) {
			t.Errorf("%s: is it of a tenant's jobs, or of the directory? Name it in tables.go, or here", name)
		}
	}
	if len(all) != len(directory)+len(move.TableNames()) {
		t.Errorf("%d tables", len(all))
	}
}

// A lease is valid in the new cell: heartbeats extend it, its outcome counts, and the job leaves its counts.
func TestALeaseMoves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.capped()
	f.Submit(f.Jobs(2, celltest.Under(f.ActiveCap(1_000_000)))...)
	held := f.ClaimOne()
	f.mustMove(other)
	beats, err := f.there.Store.Jobs.Report(t.Context(), []jobs.Report{{Lease: held.Lease()}})
	if _, ok := beats[held.Lease()]; err != nil || !ok {
		t.Fatalf("heartbeat: %v, %v", beats, err)
	}
	if outcome := f.there.MustEnd(jobs.Ending{Lease: held.Lease(), Kind: api.KindFail, Error: &api.JobError{Type: "t", Message: "m"}}); outcome.State != api.StateScheduled {
		t.Errorf("%+v", outcome)
	}
	// the attempt is counted, and nothing holds the job in the old cell
	if got := f.there.Get(held.ID); got.Attempt != 1 || got.State != api.StateScheduled {
		t.Errorf("%+v", got)
	}
	if n := f.Count("jobs"); n > 0 {
		t.Errorf("%d jobs are left", n)
	}
	sound(f.there, "the target")
	f.there.Lane = f.there.NewLane(f.Tenant, "default")
	if waiting := f.there.Claim(10, time.Minute); len(waiting) != 1 {
		t.Errorf("claimed %d", len(waiting))
	}
}
