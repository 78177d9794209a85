package stack

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// ScheduleRun is a tick that was worked off. Job is empty where it has none, Skipped then says why.
type ScheduleRun struct {
	At           time.Time
	Job, Skipped string
}

// ScheduleRuns gives a schedule's runs, oldest first.
func (c *Cluster) ScheduleRuns(tb testing.TB, name string) []ScheduleRun {
	tb.Helper()
	var runs []ScheduleRun
	for _, one := range Query[string](tb.Context(), tb, c.DatabaseURL,
		`SELECT jsonb_build_object('at', at, 'job', job_id, 'skipped', skipped)::text FROM schedule_runs WHERE name = $1 ORDER BY at`, name) {
		var run ScheduleRun
		if err := json.Unmarshal([]byte(one), &run); err != nil {
			tb.Fatalf("stack: run: %v", err)
		}
		runs = append(runs, run)
	}
	return runs
}

// CheckSeconds holds a paused schedule that is due each second to one job for each of them, from its first
// tick to its pause, and gives these jobs. The jobs' type is the schedule's name.
func (c *Cluster) CheckSeconds(tb testing.TB, name string) map[string]bool {
	tb.Helper()
	Eventually(tb, time.Minute, "the ticks of before the pause are made", func() bool {
		reached := Query[bool](tb.Context(), tb, c.DatabaseURL, `SELECT next_at > paused_at FROM schedules WHERE name = $1`, name)
		return len(reached) == 1 && reached[0]
	})
	made := map[string]bool{}
	runs := c.ScheduleRuns(tb, name)
	for i, run := range runs {
		if i > 0 && run.At.Sub(runs[i-1].At) != time.Second {
			tb.Errorf("after the tick at %s comes that at %s", runs[i-1].At, run.At)
		}
		if run.Job == "" && run.Skipped != api.SkippedPaused {
			tb.Errorf("the tick at %s has no job: %s", run.At, run.Skipped)
		}
		if run.Job != "" && made[run.Job] {
			tb.Errorf("the job %s is of two ticks", run.Job)
		}
		if run.Job != "" {
			made[run.Job] = true
		}
	}
	stored := Query[string](tb.Context(), tb, c.DatabaseURL, `SELECT id::text FROM jobs WHERE type = $1 UNION ALL
		SELECT id::text FROM finished_jobs WHERE type = $1 UNION ALL SELECT id::text FROM dead_letters WHERE type = $1`, name)
	for _, id := range stored {
		if !made[id] {
			tb.Errorf("the job %s is no tick's", id)
		}
	}
	if len(stored) != len(made) || len(made) == 0 {
		tb.Errorf("%d jobs of %d ticks", len(stored), len(made))
	}
	return made
}
