package sweep_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

// watch makes the duties' statements known from now on.
func (f *fixture) watch() *celltest.Statements {
	f.Helper()
	seen := &celltest.Statements{}
	opened, err := cell.Open(f.Context(), cell.Options{Options: store.Options{URL: f.url, MaxConns: 4, PoolWait: 5 * time.Second, Tracer: seen}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(opened.Close)
	f.store = opened
	f.d = f.newCore(f.wake)
	return seen
}

// readsRunning runs statements again and gives those that scan the running jobs.
func (f *fixture) readsRunning(seen *celltest.Statements) (reads []string) {
	f.Helper()
	for _, setting := range []string{"enable_seqscan = off", "enable_bitmapscan = off"} {
		f.exec("SET " + setting)
	}
	for sql, args := range seen.Seen() {
		if !strings.Contains(sql, "state = 'running'") {
			continue
		}
		rows, err := f.direct.Query(f.Context(), "EXPLAIN (ANALYZE) "+sql, args...)
		if err != nil {
			f.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			f.Fatal(err)
		}
		for _, line := range lines {
			if strings.Contains(line, "using jobs_running on") && !strings.Contains(line, "never executed") {
				reads = append(reads, sql+"\n"+strings.Join(lines, "\n"))
			}
		}
	}
	return reads
}

// Duties that look for what workers and lanes have left behind read the running jobs of all tenants only where there is
// something to find: no worker without its leases, and no lane or queue that is in use, makes them.
func TestDutiesReadRunningJobsForAReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(4, 0)
	lease := func(worker string, n int) {
		t.Helper()
		claimed, err := f.store.Claims.Claim(t.Context(), claim.Request{
			Lanes:   []claim.Lane{{ID: f.lane.ID, VisibilityTimeout: time.Hour}},
			Workers: []claim.Worker{{ID: worker, Max: n}}, Owner: f.tenant, LeaseID: uuid.New(),
		})
		if err != nil || len(claimed.Jobs) != n {
			t.Fatalf("claimed %d of %d: %v", len(claimed.Jobs), n, err)
		}
		if _, _, err := f.store.Workers.SeenClaiming(t.Context(), f.tenant, worker, workers.Claiming{Queues: []string{"default"}}); err != nil {
			t.Fatal(err)
		}
	}
	die := func(worker string) {
		t.Helper()
		f.exec(`UPDATE workers SET last_heartbeat_at = statement_timestamp() - interval '121 seconds', status = 'DEAD' WHERE worker_id = $1`, worker)
	}
	lease("well", 1)
	seen := f.watch()
	workers := sweep.NewWorkers(f.duties())
	runs := []func() error{
		func() error { return workers.RunOnce(t.Context()) },
		func() error {
			_, err := f.duties().Lanes().RunOnce(t.Context())
			return err
		},
	}
	all := func() {
		t.Helper()
		for _, run := range runs {
			if err := run(); err != nil {
				t.Fatal(err)
			}
		}
	}
	all()
	for _, read := range f.readsRunning(seen) {
		t.Errorf("with no dead worker: %s", read)
	}
	for _, name := range []string{"first", "second"} {
		lease(name, 1)
		die(name)
		for range 3 { // the leases, and twice none
			all()
		}
		if n := f.count(`SELECT count(*) FROM jobs WHERE state = 'running' AND worker_id = $1`, name); n != 0 {
			t.Errorf("the %s dead worker has %d leases", name, n)
		}
		seen = f.watch()
		workers.Store(f.store)
		all()
		for _, read := range f.readsRunning(seen) {
			t.Errorf("with the %s dead worker, which has no leases left: %s", name, read)
		}
	}
	if listed, err := f.store.Workers.List(t.Context(), f.tenant, "", 10); err != nil || len(listed) != 3 || listed[0].Status != api.WorkerDead {
		t.Errorf("%+v %v", listed, err)
	}
}
