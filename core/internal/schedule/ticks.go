package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/timing"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// ticks are the ticks that one transaction works off.
type ticks struct {
	all  []*work
	jobs []*run // in the order of the submissions
	step Step
}

// work is one schedule in a step.
type work struct {
	row      *lockedSchedule
	template *Candidate
	plan     plan
	// unread says that its times cannot be read, as of a zone that this version does not know.
	unread bool
	// quiet says that it is in a window, since its first tick that is due: what is left out would have been skipped.
	quiet bool
	// runs are those of this step, in order. made, where not nil, is the only one that may have a
	// job though the schedule does not allow overlap.
	runs []*run
	made *run
}

// run is a tick with its job, or why it has none.
type run struct {
	of      *work
	at      time.Time
	jobID   uuid.UUID
	skipped string
	// again says that a cap has refused it before: its row is there.
	again bool
	// stored and storedJob are what its row says when the jobs are submitted.
	stored    string
	storedJob uuid.UUID
	// taken says that its row was there though nothing refused it: the tick was worked off before.
	taken bool
}

// planAll plans the ticks of the schedules that are held, up to the bound of a step. The others stay
// due.
func planAll(held []*lockedSchedule, candidates []Candidate) *ticks {
	t := &ticks{step: Step{Skipped: map[string]int{}}}
	left, bytes := stepTicks, dueBytes
	for _, row := range held {
		if left <= 0 || bytes <= 0 {
			break
		}
		one := &work{row: row, template: &candidates[row.Place]}
		size := len(row.Job) + 1
		one.planTicks(min(scheduleTicks, max(bytes/size, 1)))
		left, bytes = left-len(one.runs), bytes-size*len(one.runs)
		t.all = append(t.all, one)
		t.step.Missed += one.plan.missed
	}
	t.step.Worked = len(t.all)
	return t
}

// planTicks decides which runs there are.
func (w *work) planTicks(most int) {
	row := w.row
	w.plan = plan{next: row.NextAt, owed: row.OwedUntil}
	if row.NextAt == nil || row.NextAt.After(row.Now) { // only a refused tick
		if row.RefusedAt != nil && row.PausedAt == nil {
			w.runs = []*run{{of: w, at: *row.RefusedAt, again: true, stored: api.SkippedCap}}
		}
	} else {
		times, err := row.timing()
		if err != nil {
			w.unread = true
			return
		}
		catchUp := row.CatchUp
		if row.PausedAt != nil {
			catchUp = api.CatchUpLatest // one run says that it was paused
		}
		w.plan = planTicks(times, state{next: *row.NextAt, owed: row.OwedUntil}, row.Now, catchUp, int(row.CatchUpMax), most)
		windows := timing.StoredWindows(row.Windows)
		until, in := windows.Until(*row.NextAt)
		w.quiet = in && until.After(row.Now)
		for _, tick := range w.plan.ticks {
			one := &run{of: w, at: tick}
			if _, in := windows.Until(tick); in {
				one.skipped = api.SkippedWindow
			}
			if row.PausedAt != nil && !tick.Before(*row.PausedAt) {
				one.skipped = api.SkippedPaused
			}
			w.runs = append(w.runs, one)
		}
	}
	for _, one := range w.runs {
		one.jobID = uuid.Must(uuid.NewV7()) // as documented, the system's random numbers do not fail
	}
}

// claimRunsSQL stores the rows of ticks, and gives those that were not there. The key decides: a tick
// that has its row was worked off before, as after a restore or when a clock was set back.
const claimRunsSQL = `
INSERT INTO schedule_runs (tenant_id, name, at, job_id, skipped)
SELECT * FROM unnest(@tenants::uuid[], @names::text[], @ats::timestamptz[], @jobs::uuid[], @skipped::text[])
ON CONFLICT (tenant_id, name, at) DO NOTHING
RETURNING tenant_id, name, at`

// choose stores the rows of the ticks, and gives the submits of those that get a job.
func (t *ticks) choose(ctx context.Context, tx pgx.Tx) (chosen []submit.Submission, err error) {
	if err := t.claimRuns(ctx, tx); err != nil {
		return nil, err
	}
	for _, one := range t.all {
		one.chooseOne()
	}
	if err := t.settleOverlap(ctx, tx); err != nil {
		return nil, err
	}
	for _, one := range t.all {
		for _, run := range one.runs {
			if run.taken || run.skipped != "" {
				continue
			}
			t.jobs = append(t.jobs, run)
			chosen = append(chosen, run.submission())
		}
	}
	return chosen, nil
}

func (t *ticks) claimRuns(ctx context.Context, tx pgx.Tx) error {
	type key struct {
		owner uuid.UUID
		name  string
		at    int64
	}
	fresh := map[key]*run{}
	var rows runColumns
	for _, one := range t.all {
		for _, run := range one.runs {
			if run.again {
				continue
			}
			fresh[key{one.row.TenantID, one.row.Name, run.at.UnixMicro()}] = run
			run.stored, run.storedJob, run.taken = run.skipped, run.jobID, true
			rows.add(run)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	stored, err := tx.Query(ctx, claimRunsSQL, rows.args())
	if err != nil {
		return err
	}
	var k key
	var at time.Time
	_, err = pgx.ForEachRow(stored, []any{&k.owner, &k.name, &at}, func() error {
		k.at = at.UnixMicro()
		fresh[k].taken = false
		return nil
	})
	return err
}

// chooseOne leaves at most one tick its job where the schedule does not allow overlap: of those that
// came together, skip makes the first, and cancel the last, which would cancel the others.
func (w *work) chooseOne() {
	if w.row.Overlap == api.OverlapAllow {
		return
	}
	for _, run := range w.runs {
		switch {
		case run.taken || run.skipped != "":
		case w.made == nil:
			w.made = run
		case w.row.Overlap == api.OverlapSkip:
			run.skipped = api.SkippedOverlap
		default:
			w.made.skipped = api.SkippedOverlap
			w.made = run
		}
	}
}

// leaveOut skips the one tick that would have got a job.
func (w *work) leaveOut(reason string) {
	w.made.skipped = reason
	w.made = nil
}

func (r *run) submission() submit.Submission {
	template := r.of.template
	made := template.Template
	made.Jobs = []submit.NewJob{made.Jobs[0]}
	made.Jobs[0].ID = r.jobID
	if expires := template.Job.ExpiresAfterMS; expires != nil {
		deadline := r.of.row.Now.Add(time.Duration(*expires) * time.Millisecond)
		made.Jobs[0].Deadline = &deadline
	}
	return made
}

// runColumns are rows of schedule_runs, as arrays.
type runColumns struct {
	tenants []uuid.UUID
	names   []string
	ats     []time.Time
	jobs    []*uuid.UUID
	skipped []*string
}

func (c *runColumns) add(r *run) {
	c.tenants, c.names, c.ats = append(c.tenants, r.of.row.TenantID), append(c.names, r.of.row.Name), append(c.ats, r.at)
	job, skipped := r.shown()
	c.jobs, c.skipped = append(c.jobs, job), append(c.skipped, skipped)
}

// shown is what the row of a run says.
func (r *run) shown() (job *uuid.UUID, skipped *string) {
	if r.skipped != "" {
		return nil, &r.skipped
	}
	return &r.jobID, nil
}

func (c *runColumns) args() store.Args {
	return store.Args{"tenants": c.tenants, "names": c.names, "ats": c.ats, "jobs": c.jobs, "skipped": c.skipped}
}

const correctRunsSQL = `
UPDATE schedule_runs r SET job_id = settled.job_id, skipped = settled.skipped
FROM unnest(@tenants::uuid[], @names::text[], @ats::timestamptz[], @jobs::uuid[], @skipped::text[])
     AS settled(tenant_id, name, at, job_id, skipped)
WHERE r.tenant_id = settled.tenant_id AND r.name = settled.name AND r.at = settled.at`

// moveSchedulesSQL stores how far the schedules are worked off. The newest run is not replaced by an
// older one.
const moveSchedulesSQL = `
UPDATE schedules s
SET next_at = moved.next_at, due_at = moved.due_at, owed_until = moved.owed_until, refused_at = moved.refused_at,
    last_at = moved.last_at, last_job_id = moved.last_job_id, last_skipped = moved.last_skipped,
    made_job_id = moved.made_job_id, ticked_at = statement_timestamp(), missed_at = CASE WHEN moved.missed THEN statement_timestamp() ELSE s.missed_at END
FROM unnest(@tenants::uuid[], @names::text[], @next_ats::timestamptz[], @due_ats::timestamptz[], @owed_untils::timestamptz[],
            @refused_ats::timestamptz[], @last_ats::timestamptz[], @last_job_ids::uuid[], @last_skips::text[], @made_job_ids::uuid[], @missed::boolean[])
     AS moved(tenant_id, name, next_at, due_at, owed_until, refused_at, last_at, last_job_id, last_skipped, made_job_id, missed)
WHERE s.tenant_id = moved.tenant_id AND s.name = moved.name`

// finish queues what the answers to the submits mean for runs and schedules. A refusal that is no cap's
// is an error: the tick is as if it had not been tried.
func (t *ticks) finish(batch *pgx.Batch, answers []submit.Answer) error {
	for i, run := range t.jobs {
		result := &answers[i].Jobs[0]
		if result.Row == nil {
			if result.Refused.Code == problem.DedupeConflict { // the job of an earlier tick is live
				run.skipped = api.SkippedOverlap
				continue
			}
			if !isCap(result.Refused) {
				return fmt.Errorf("the job of the tick at %s is refused: %w", run.at.UTC().Format(time.RFC3339), result.Refused)
			}
			run.skipped = api.SkippedCap
			continue
		}
		run.jobID = result.Row.ID // of the live job that has its dedupe_key, where there is one
		t.step.Late = append(t.step.Late, max(run.of.row.Now.Sub(run.at), 0))
	}
	var changed runColumns
	for _, one := range t.all {
		for _, run := range one.runs {
			if run.taken {
				continue
			}
			if !run.again {
				t.step.Ticks++
			}
			if run.skipped != "" && !run.again {
				t.step.Skipped[run.skipped]++
			}
			if run.skipped != run.stored || run.jobID != run.storedJob && run.skipped == "" {
				changed.add(run)
			}
		}
	}
	if len(changed.names) > 0 {
		batch.Queue(correctRunsSQL, changed.args())
	}
	if len(t.all) > 0 {
		batch.Queue(moveSchedulesSQL, t.moved())
	}
	return nil
}

// isCap says whether a bound on the tenant's jobs or lanes is what refuses a job.
func isCap(refused *problem.Problem) bool {
	switch refused.Code {
	case problem.ActiveCapReached, problem.QueueFull, problem.TooManyLanes:
		return true
	default:
		return false
	}
}
