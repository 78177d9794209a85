package schedule_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// fixture is a database with a core that works schedules off when the test says so.
type fixture struct {
	*celltest.Fixture
	core *enginetest.Core
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: celltest.NewFixture(t)}
	f.core = f.newCore(f.Store)
	return f
}

func (f *fixture) newCore(store *cell.Cell) *enginetest.Core {
	f.Helper()
	core := enginetest.NewCore(engine.Options{Store: store, Metrics: metrics.NewJobs(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler)})
	if err := core.Refresh(f.Context()); err != nil {
		f.Fatal(err)
	}
	return core
}

// every is a schedule of the tenant's with an interval.
func every(interval time.Duration, change ...func(*api.ScheduleRequest)) api.ScheduleRequest {
	ms := interval.Milliseconds()
	r := api.ScheduleRequest{EveryMS: &ms, Job: api.ScheduleJob{Type: "report", Payload: []byte(`{"n":1.50}`)}}
	for _, c := range change {
		c(&r)
	}
	return r
}

func overlap(how string) func(*api.ScheduleRequest) {
	return func(r *api.ScheduleRequest) { r.Overlap = how }
}

func catchUp(how string, most int) func(*api.ScheduleRequest) {
	return func(r *api.ScheduleRequest) { r.CatchUp, r.CatchUpMax = how, &most }
}

func (f *fixture) put(name string, r api.ScheduleRequest) api.Schedule {
	f.Helper()
	return f.putFor(f.Tenant, name, r)
}

func (f *fixture) putFor(owner tenant.ID, name string, r api.ScheduleRequest) api.Schedule {
	f.Helper()
	if fields := r.Validate(time.Now()); len(fields) > 0 {
		f.Fatal(fields)
	}
	made, err := f.Store.Schedules.PutSchedule(f.Context(), owner, "", name, r)
	if err != nil {
		f.Fatal(err)
	}
	return made
}

func (f *fixture) get(name string) api.Schedule {
	f.Helper()
	got, err := f.Store.Schedules.GetSchedule(f.Context(), f.Tenant, "", name)
	if err != nil {
		f.Fatal(err)
	}
	return got
}

// runs are a schedule's runs, oldest first.
func (f *fixture) runs(name string) []api.ScheduleRun {
	f.Helper()
	listed, err := f.Store.Schedules.ScheduleRuns(f.Context(), f.Tenant, "", name, nil, 10_000)
	if err != nil {
		f.Fatal(err)
	}
	for i, j := 0, len(listed)-1; i < j; i, j = i+1, j-1 {
		listed[i], listed[j] = listed[j], listed[i]
	}
	return listed
}

// back moves a schedule's time back, as if that much had passed since.
func (f *fixture) back(name string, by time.Duration) {
	f.Helper()
	f.Exec(`UPDATE schedules SET next_at = next_at - $2::interval, due_at = due_at - $2::interval, created_at = created_at - $2::interval,
		starts_at = starts_at - $2::interval, refused_at = refused_at - $2::interval, paused_at = paused_at - $2::interval, last_at = last_at - $2::interval
		WHERE name = $1`, name, by)
	// a run takes the key of the one before: the ORDER BY has all deleted before the first is inserted, whatever the order of the heap
	f.Exec(`WITH gone AS (DELETE FROM schedule_runs WHERE name = $1 RETURNING *)
		INSERT INTO schedule_runs SELECT tenant_id, name, at - $2::interval, job_id, skipped FROM gone ORDER BY at`, name, by)
}

// work works off what is due, until nothing is.
func (f *fixture) work() {
	f.Helper()
	f.workAt(f.core)
}

func (f *fixture) workAt(core *enginetest.Core) (worked int) {
	f.Helper()
	for {
		run, err := core.RunSchedules(f.Context(), 500)
		if err != nil {
			f.Fatal(err)
		}
		if worked += run.Worked; run.Due == 0 {
			return worked
		}
	}
}

// check holds the runs and the jobs of the fixture's database to each other: each job is one run's,
// and each run has a job of its own or a reason.
func (f *fixture) check() {
	f.Helper()
	if n := f.CountOf(`SELECT count(*) FROM schedule_runs WHERE job_id IS NOT NULL AND job_id NOT IN
		(SELECT id FROM jobs UNION ALL SELECT id FROM finished_jobs UNION ALL SELECT id FROM dead_letters)`); n != 0 {
		f.Errorf("%d runs name a job that is not there", n)
	}
	if n := f.CountOf(`SELECT count(*) FROM jobs WHERE type = 'report' AND id NOT IN (SELECT job_id FROM schedule_runs WHERE job_id IS NOT NULL)`); n != 0 {
		f.Errorf("%d jobs are no run's", n)
	}
	if n := f.CountOf(`SELECT count(job_id) - count(DISTINCT job_id) FROM schedule_runs`); n != 0 {
		f.Errorf("%d jobs are of more than one run", n)
	}
}
