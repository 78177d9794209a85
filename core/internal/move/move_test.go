package move_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/move"
	"github.com/forgequeue/forgequeue/core/internal/store"
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
	f.upTo(move.Left, other) // which queues again what runs
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
	if n := f.CountOf(`SELECT count(*) FROM tenant_moves`) + f.CountOf(`SELECT count(*) FROM tenant_fences`) + f.there.CountOf(`SELECT count(*) FROM tenant_fences`); n > 0 {
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
	directory := []string{"plans", "tenants", "api_keys", "this_cell", "processes", "verification", "ledger_days", "start_rates", "tenant_moves", "tenant_fences", "directory", "directory_readers", "goose_db_version"}
	for _, name := range all {
		if slices.Contains(move.TableNames(), name) == slices.Contains(directory, name) {
			t.Errorf("%s: is it of a tenant's jobs, or of the directory? Name it in tables.go, or here", name)
		}
	}
	if len(all) != len(directory)+len(move.TableNames()) {
		t.Errorf("%d tables", len(all))
	}
}

// A move waits for leases: an outcome is taken while it does. What is held for longer is given back without a used attempt, and
// its holder has lost it.
func TestLeasesEndBeforeAMove(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.capped()
	f.Submit(f.Jobs(3, celltest.Under(f.ActiveCap(1_000_000)))...)
	soon, never := f.ClaimOne(), f.ClaimOne()
	f.drain = 5 * time.Second
	moved := make(chan error, 1)
	go func() { moved <- f.move(f.bounded(), other, nil) }()
	celltest.Eventually(t, "the move waits for the leases", func() bool { return f.CountOf(`SELECT count(*) FROM tenant_fences WHERE state = 'draining'`) == 1 })
	beats, err := f.Store.Jobs.Report(t.Context(), []jobs.Report{{Lease: soon.Lease()}})
	if _, ok := beats[soon.Lease()]; err != nil || !ok {
		t.Errorf("heartbeat: %v, %v", beats, err)
	}
	f.MustEnd(jobs.Ending{Lease: soon.Lease(), Kind: api.KindComplete})
	if taken := f.Claim(10, time.Minute); len(taken) > 0 {
		t.Errorf("claimed %d", len(taken))
	}
	if err := f.submit(); !errors.Is(err, store.ErrTenantMoved) {
		t.Errorf("submit: %v", err)
	}
	if err := <-moved; err != nil {
		t.Fatal(err)
	}
	if got := f.there.Get(soon.ID); got.State != api.StateCompleted {
		t.Errorf("%+v", got)
	}
	if got := f.there.Get(never.ID); got.Attempt != 0 || got.State != api.StateQueued {
		t.Errorf("%+v", got)
	}
	if ended := f.there.End(jobs.Ending{Lease: never.Lease(), Kind: api.KindComplete}); !errors.Is(ended.Err, jobs.ErrLeaseLost) && !errors.Is(ended.Err, jobs.ErrOutcomeConflict) {
		t.Errorf("the lost lease: %v", ended.Err)
	}
	sound(f.there, "the target")
	f.there.Lane = f.there.NewLane(f.Tenant, "default")
	if waiting := f.there.Claim(10, time.Minute); len(waiting) != 2 {
		t.Errorf("claimed %d", len(waiting))
	}
}
