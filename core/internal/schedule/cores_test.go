package schedule_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/schedule"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Three cores race for the same schedules while their connections are killed: one job a tick, never
// none, never two.
func TestThreeCoresAndKilledConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const schedules, ticks = 40, 10
	capped := f.NewTenant()
	most := int64(100_000)
	if _, err := f.Store.Tenants.Patch(t.Context(), capped, api.TenantPatch{Overrides: &api.Overrides{Limits: api.Limits{MaxActive: &most}}}); err != nil {
		t.Fatal(err)
	}
	owners := []tenant.ID{f.Tenant, f.NewTenant(), capped}
	const interval = 10 * time.Minute
	start := f.clock().Add(-ticks*interval + interval/2) // the next tick is far
	for i := range schedules {
		f.putFor(owners[i%len(owners)], fmt.Sprint("s", i), every(interval, catchUp(api.CatchUpAll, 1000)))
	}
	f.Exec(`UPDATE schedules SET created_at = $1, next_at = $1, due_at = $1`, start)

	var racers []*enginetest.Core
	for range 3 {
		racers = append(racers, f.newCore(celltest.OpenURL(t, f.URL)))
	}
	conn := celltest.Connect(f, f.URL)
	ctx, stop := context.WithCancel(t.Context())
	var cores, killer sync.WaitGroup
	var worked atomic.Int64
	killer.Go(func() { f.kill(ctx, conn, &worked) })
	for _, core := range racers {
		cores.Go(func() {
			for {
				run, err := core.RunSchedules(t.Context(), 7)
				if err == nil && run.Due == 0 {
					return
				}
				worked.Add(int64(run.Worked))
			}
		})
	}
	cores.Wait()
	stop()
	killer.Wait()
	if n := f.CountOf(`SELECT count(*) FROM (SELECT FROM schedule_runs WHERE job_id IS NOT NULL GROUP BY tenant_id, name HAVING count(*) = $1) AS s`, ticks); n != schedules {
		t.Errorf("%d of %d schedules have a job for each of %d ticks", n, schedules, ticks)
	}
	if n := f.Count("jobs"); n != schedules*ticks {
		t.Errorf("%d jobs, want %d", n, schedules*ticks)
	}
	f.check()
	f.NoDrift()
}

// kill ends the sessions of the cores again and again, each time that some more work is done.
func (f *fixture) kill(ctx context.Context, conn *pgx.Conn, worked *atomic.Int64) {
	for ctx.Err() == nil {
		before := worked.Load()
		if _, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'forgequeue-core' AND state <> 'idle'`); err != nil && ctx.Err() == nil {
			f.Error(err)
		}
		for worked.Load() == before && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func (f *fixture) clock() time.Time {
	f.Helper()
	now, err := f.Store.Now(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return now
}

// One tenant's many do not delay another's one.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("many", every(time.Hour))
	f.Exec(`INSERT INTO schedules SELECT (jsonb_populate_record(s, jsonb_build_object('name', 's' || n, 'due_at', now(), 'next_at', now()))).*
		FROM schedules s, generate_series(1, 3000) AS n`)
	other := f.NewTenant()
	f.putFor(other, "one", every(time.Hour))
	f.Exec(`UPDATE schedules SET due_at = now(), next_at = now() WHERE tenant_id = $1`, other)
	run, err := f.core.RunSchedules(t.Context(), 50)
	if err != nil || run.Due != 50 || run.Worked != 50 {
		t.Fatal(run, err)
	}
	if n := f.CountOf(`SELECT count(*) FROM schedule_runs WHERE tenant_id = $1`, other); n != 1 {
		t.Error("the other tenant's schedule was not among the first 50 of 3001")
	}
}

// A core that finds another one at the same ticks leaves them to it, and says so.
func TestTicksThatAnotherCoreHolds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("held", every(time.Hour))
	f.Exec(`UPDATE schedules SET due_at = now(), next_at = now()`)
	other, err := celltest.Connect(f, f.URL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), `SELECT FROM schedules FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if run, err := f.core.RunSchedules(t.Context(), 500); err != nil || run != (schedule.RunResult{Due: 1, Contended: true}) {
		t.Errorf("while it is held: %+v, %v", run, err)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if run, err := f.core.RunSchedules(t.Context(), 500); err != nil || run != (schedule.RunResult{Due: 1, Worked: 1}) {
		t.Errorf("afterwards: %+v, %v", run, err)
	}
	f.check()
}
