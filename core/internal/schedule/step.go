package schedule

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// stepTicks bounds the ticks of one transaction, scheduleTicks those of one schedule in it.
	stepTicks     = 1000
	scheduleTicks = 100
)

// Step is what one transaction has done.
type Step struct {
	// Worked is how many schedules it has worked off.
	Worked int
	// Answers are those to the submits of the ticks' jobs.
	Answers []submit.Answer
	// Cancelled are the jobs that were ended by overlap cancel.
	Cancelled []jobs.Change
	// Requested are those that run: their holders are asked to stop.
	Requested []uuid.UUID
	// Ticks counts the ticks that were worked off for the first time, Skipped those without a job,
	// by reason; Missed those that were left out.
	Ticks   int
	Skipped map[string]int
	Missed  int
	// Late are how late the jobs of ticks were made.
	Late []time.Duration
}

// lockDueSQL locks the candidates that are still due and as they were. Those that another core works
// off are left to it. The LIMIT makes each a probe of its own.
const lockDueSQL = `
SELECT candidate.place::integer - 1 AS place, statement_timestamp() AS now, due.*
FROM unnest(@tenants::uuid[], @names::text[], @revisions::bigint[]) WITH ORDINALITY AS candidate(tenant_id, name, revision, place)
CROSS JOIN LATERAL (
  SELECT ` + scheduleColumns + ` FROM schedules s
  WHERE s.tenant_id = candidate.tenant_id AND s.name = candidate.name AND s.revision = candidate.revision
    AND s.due_at <= statement_timestamp() AND s.tenant_id <> ALL(` + store.MovingSQL + `)
  LIMIT 1
  FOR UPDATE SKIP LOCKED
) AS due`

// lockedSchedule is a due schedule that this transaction holds.
type lockedSchedule struct {
	Place int32
	Now   time.Time
	scheduleRow
}

// step works off candidates in one transaction: a run for each tick, the jobs, and the schedules' next
// ticks. All of it commits, or nothing: however often cores die, each tick is made once. The candidates'
// templates are filled in.
func (s *Schedules) step(ctx context.Context, candidates []Candidate) (step Step, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	for range store.DeadlockTries {
		if step, err = s.stepOnce(ctx, candidates); !store.Deadlocked(err) {
			break
		}
	}
	if err != nil {
		return Step{}, fmt.Errorf("schedule: step: %w", err)
	}
	return step, nil
}

func (s *Schedules) stepOnce(ctx context.Context, candidates []Candidate) (step Step, err error) {
	templates := make([]submit.Submission, len(candidates))
	for i := range candidates {
		templates[i] = candidates[i].Template
	}
	locks := s.submits.Locks(templates)
	var held []*lockedSchedule
	err = s.InShortTx(ctx, func(first *pgx.Batch) {
		first.Queue(lockDueSQL, candidateArgs(candidates)).Query(func(rows pgx.Rows) (err error) {
			held, err = pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[lockedSchedule])
			return err
		})
		locks.Lock(ctx, first)
	}, func(tx pgx.Tx) (*pgx.Batch, error) {
		made := planAll(held, candidates)
		chosen, err := made.choose(ctx, tx)
		if err != nil {
			return nil, err
		}
		if len(made.step.Cancelled) > 0 {
			if err := locks.Refresh(ctx, tx); err != nil {
				return nil, err
			}
		}
		answers, last, err := locks.Store(ctx, tx, chosen)
		if err != nil {
			return nil, err
		}
		err = made.finish(last, answers)
		step = made.step
		step.Answers = answers
		return last, err
	})
	return step, locks.Committed(err)
}

func candidateArgs(candidates []Candidate) store.Args {
	n := len(candidates)
	tenants, names, revisions := make([]uuid.UUID, n), make([]string, n), make([]int64, n)
	for i, one := range candidates {
		tenants[i], names[i], revisions[i] = one.TenantID, one.Name, one.Revision
	}
	return store.Args{"tenants": tenants, "names": names, "revisions": revisions}
}

// postponeSQL leaves schedules alone for a while whose step fails.
const postponeSQL = `
UPDATE schedules SET due_at = statement_timestamp() + @pause::interval
FROM unnest(@tenants::uuid[], @names::text[], @revisions::bigint[]) AS failed(tenant_id, name, revision)
WHERE schedules.tenant_id = failed.tenant_id AND schedules.name = failed.name AND schedules.revision = failed.revision
  AND (SELECT schedules.due_at <= statement_timestamp())
  AND schedules.tenant_id <> ALL(` + store.MovingSQL + `)`

// postpone tries schedules again after a pause: their step failed for a reason of their
// own. No tick is lost by it.
func (s *Schedules) postpone(ctx context.Context, candidates []Candidate, pause time.Duration) error {
	args := candidateArgs(candidates)
	args["pause"] = pause
	if err := store.Exec(ctx, s.Store, postponeSQL, args); err != nil {
		return fmt.Errorf("schedule: postpone: %w", err)
	}
	return nil
}

// livingSQL finds which of some jobs have not ended.
const livingSQL = `
SELECT id FROM jobs WHERE id = ANY(@ids::uuid[])`

// living gives which of the last jobs of schedules with overlap skip have not ended.
func living(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	lives := map[uuid.UUID]bool{}
	if len(ids) == 0 {
		return lives, nil
	}
	rows, err := tx.Query(ctx, livingSQL, store.Args{"ids": ids})
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	for _, id := range found {
		lives[id] = true
	}
	return lives, err
}

// settleOverlap decides about the ticks of schedules whose last job may live: skip leaves them out,
// cancel cancels that job.
func (t *ticks) settleOverlap(ctx context.Context, tx pgx.Tx) error {
	var skip, cancel []uuid.UUID
	for _, one := range t.all {
		if one.made == nil || one.row.MadeJobID == nil {
			continue
		}
		switch one.row.Overlap {
		case api.OverlapSkip:
			skip = append(skip, *one.row.MadeJobID)
		case api.OverlapCancel:
			cancel = append(cancel, *one.row.MadeJobID)
		}
	}
	lives, err := living(ctx, tx, skip)
	if err != nil {
		return err
	}
	for _, one := range t.all {
		if one.made != nil && one.row.Overlap == api.OverlapSkip && one.row.MadeJobID != nil && lives[*one.row.MadeJobID] {
			one.leaveOut(api.SkippedOverlap)
		}
	}
	if len(cancel) == 0 {
		return nil
	}
	t.step.Cancelled, t.step.Requested, err = jobs.CancelIn(ctx, tx, cancel)
	return err
}
