package schedule

import (
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// unreadPause is how long a schedule is left alone whose time zone this core does not know: another
// core may have another time zone database.
const unreadPause = time.Minute

// moved are the rows of moveSchedulesSQL.
func (t *ticks) moved() store.Args {
	n := len(t.all)
	tenants, names := make([]uuid.UUID, n), make([]string, n)
	nextAts, dueAts, owedUntils, refusedAts := make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n)
	lastAts, lastJobs, lastSkips, madeJobs := make([]*time.Time, n), make([]*uuid.UUID, n), make([]*string, n), make([]*uuid.UUID, n)
	missed := make([]bool, n)
	for i, one := range t.all {
		row := one.row
		tenants[i], names[i] = row.TenantID, row.Name
		nextAts[i], owedUntils[i], missed[i] = one.plan.next, one.plan.owed, one.plan.missed > 0 && row.PausedAt == nil && !one.quiet
		refusedAts[i], dueAts[i] = one.afterwards()
		lastAts[i], lastJobs[i], lastSkips[i], madeJobs[i] = row.LastAt, row.LastJobID, row.LastSkipped, row.MadeJobID
		for _, run := range one.runs {
			if run.taken {
				continue
			}
			job, skipped := run.shown()
			if job != nil {
				madeJobs[i] = job
			}
			if lastAts[i] == nil || !run.at.Before(*lastAts[i]) {
				lastAts[i], lastJobs[i], lastSkips[i] = &run.at, job, skipped
			}
		}
	}
	return store.Args{
		"tenants": tenants, "names": names, "next_ats": nextAts, "due_ats": dueAts, "owed_untils": owedUntils, "refused_ats": refusedAts,
		"last_ats": lastAts, "last_job_ids": lastJobs, "last_skips": lastSkips, "made_job_ids": madeJobs, "missed": missed,
	}
}

// afterwards says whether the newest tick is tried again, and when to look at the schedule.
func (w *work) afterwards() (refused, due *time.Time) {
	due = w.plan.next
	if w.unread {
		later := w.row.Now.Add(unreadPause)
		return nil, &later
	}
	if len(w.runs) == 0 {
		return nil, due
	}
	newest := w.runs[len(w.runs)-1]
	if newest.taken || newest.skipped != api.SkippedCap || due != nil && !due.After(w.row.Now) {
		return nil, due
	}
	again := w.row.Now.Add(retryWait(newest.at, w.row.Now))
	if due == nil || again.Before(*due) {
		due = &again
	}
	return &newest.at, due
}
