package sweep_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A core that is told of a schedule makes its jobs when they are due, without a poll of the test's.
func TestTickerSleepsUntilTheNextTick(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	core := f.d
	f.run(f.duties().Schedules().Run)
	secondly := "* * * * * *"
	if _, err := core.PutSchedule(t.Context(), f.tenant, "", "s", api.ScheduleRequest{Cron: &secondly, Job: api.ScheduleJob{Type: "x"}}); err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "three ticks have a job", func() bool { return f.count(`SELECT count(*) FROM schedule_runs WHERE job_id IS NOT NULL`) >= 3 })
	if n := f.count(`SELECT count(*) FROM (SELECT at - lag(at) OVER (ORDER BY at) AS gap FROM schedule_runs) AS g WHERE gap <> interval '1 second'`); n != 0 {
		t.Errorf("%d ticks are not a second after the one before", n)
	}
}

// Nothing to do: one statement, and a long sleep; a schedule that is far is looked at each second.
func TestTickerSleepsLongWithoutSchedules(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ticker := f.duties().Schedules()
	if next, err := ticker.RunOnce(t.Context()); err != nil || next != 10*time.Second {
		t.Errorf("without schedules it sleeps %v, %v", next, err)
	}
	yearly := "@yearly"
	if _, err := f.d.PutSchedule(t.Context(), f.tenant, "", "s", api.ScheduleRequest{Cron: &yearly, Job: api.ScheduleJob{Type: "x"}}); err != nil {
		t.Fatal(err)
	}
	if next, err := ticker.RunOnce(t.Context()); err != nil || next != time.Second {
		t.Errorf("with one that is far it sleeps %v, %v", next, err)
	}
}

// The clock was a year ahead and is set back: the schedule goes on from now, and what was made is not
// made again.
func TestTickerAfterAClockWasSetBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	every := time.Minute.Milliseconds()
	for _, name := range []string{"ahead", "right"} {
		if _, err := f.d.PutSchedule(t.Context(), f.tenant, "", name, api.ScheduleRequest{EveryMS: &every, Job: api.ScheduleJob{Type: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	was := f.time(`SELECT next_at FROM schedules WHERE name = 'right'`)
	f.exec(`UPDATE schedules SET next_at = next_at + interval '1 year', due_at = due_at + interval '1 year', ticked_at = now() + interval '1 year' WHERE name = 'ahead'`)
	// The next tick was made when the clock was ahead.
	f.exec(`INSERT INTO schedule_runs SELECT tenant_id, name, created_at + interval '1 minute', gen_random_uuid() FROM schedules WHERE name = 'ahead'`)
	ticker := f.duties().Schedules()
	if _, err := ticker.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if next := f.time(`SELECT next_at FROM schedules WHERE name = 'ahead'`); time.Until(next) > time.Minute {
		t.Errorf("the next tick is in %v", time.Until(next))
	}
	if next := f.time(`SELECT next_at FROM schedules WHERE name = 'right'`); !next.Equal(was) {
		t.Errorf("a schedule that was right moved from %s to %s", was, next)
	}
	f.exec(`UPDATE schedules SET due_at = next_at - interval '1 minute', next_at = created_at + interval '1 minute' WHERE name = 'ahead'`)
	f.exec(`UPDATE schedules SET created_at = created_at - interval '1 minute', next_at = next_at - interval '1 minute' WHERE name = 'ahead'`)
	f.exec(`UPDATE schedule_runs SET at = at - interval '1 minute'`)
	if _, err := ticker.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.count(`SELECT count(*) FROM jobs`); n != 0 {
		t.Errorf("%d jobs of a tick that has its run", n)
	}
}

func (f *fixture) time(sql string) (at time.Time) {
	f.Helper()
	if err := f.direct.QueryRow(f.Context(), sql).Scan(&at); err != nil {
		f.Fatal(err)
	}
	return at
}

// Runs are kept as long as finished jobs.
func TestRunsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.exec(`INSERT INTO schedule_runs SELECT $1, 's', now() - n * interval '1 day', gen_random_uuid() FROM generate_series(0, 9) AS n`, f.tenant)
	store, err := cell.Open(t.Context(), cell.Options{
		Options: store.Options{URL: f.url, MaxConns: 4, PoolWait: 5 * time.Second}, Retention: retention.Periods{Finished: 7*24*time.Hour - time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	f.store = store
	f.forgetOnce()
	if n := f.count(`SELECT count(*) FROM schedule_runs`); n != 7 {
		t.Errorf("%d runs are left of ten days, want those of seven", n)
	}
}
