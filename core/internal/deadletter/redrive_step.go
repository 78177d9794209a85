package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// redriveBatch bounds one step; redriveSlice bounds a step of a redrive with a rate, in seconds
	// of that rate.
	redriveBatch = 500
	redriveSlice = 0.1
	// redriveSlack is how far a late redrive may catch up with its rate: its burst, in seconds of
	// that rate.
	redriveSlack = time.Second
	// redrivePause is the time between two steps without a rate, redriveWait between two checks of
	// a full cap.
	redrivePause = 50 * time.Millisecond
	redriveWait  = time.Second
	// redriveFailures is how many consecutive steps may fail, each waiting twice as long as the one
	// before: two minutes in total.
	redriveFailures = 8
)

// DueRedrive names a redrive that is due.
type DueRedrive struct {
	ID       uuid.UUID
	TenantID tenant.ID
}

const dueRedrivesSQL = `
SELECT id, tenant_id FROM redrives
WHERE ` + unfinished + ` AND next_at <= statement_timestamp() AND tenant_id <> ALL(` + store.MovingNowSQL + `)
ORDER BY next_at
LIMIT @most`

// DueRedrives lists redrives, of any tenants, that are due, the longest overdue first.
func (s *Letters) DueRedrives(ctx context.Context, most int) ([]DueRedrive, error) {
	due, err := store.Query(ctx, s.Store, pgx.RowToStructByName[DueRedrive], dueRedrivesSQL, store.Args{"most": most})
	if err != nil {
		return nil, fmt.Errorf("deadletter: due redrives: %w", store.NotApplied(err))
	}
	return due, nil
}

const nextRedriveSQL = `
SELECT (SELECT next_at FROM redrives WHERE ` + unfinished + ` AND tenant_id <> ALL(` + store.MovingNowSQL + `) ORDER BY next_at LIMIT 1) - statement_timestamp()`

// NextRedrive gives the time until a redrive, of any tenant, is due; nil if none is unfinished.
func (s *Letters) NextRedrive(ctx context.Context) (*time.Duration, error) {
	next, err := store.Query(ctx, s.Store, pgx.RowTo[*time.Duration], nextRedriveSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("deadletter: next redrive: %w", store.NotApplied(err))
	}
	return next[0], nil
}

// lockRedriveSQL locks the row for one step: the row lock is the lease. When a core dies,
// PostgreSQL rolls its batch back. ended_at says that it is unfinished: a condition on the state
// would scan all unfinished ones.
const lockRedriveSQL = `
SELECT ` + redriveColumns + ` FROM redrives
WHERE id = @id AND ended_at IS NULL AND next_at <= statement_timestamp() AND tenant_id <> ALL(` + store.MovingSQL + `)
FOR UPDATE SKIP LOCKED`

// progressSQL stores a step. With a rate the next step is due after the time that this one costs,
// from when it was due; without a rate after a pause.
const progressSQL = `
UPDATE redrives
SET done = done + @done, refused = refused + @refused, cursor = @cursor, state = @state, waiting = @waiting, failures = 0,
    matched = CASE WHEN @state = 'done' AND matched_capped THEN done + refused + @done + @refused
                   ELSE GREATEST(matched, done + refused + @done + @refused) END,
    matched_capped = matched_capped AND @state <> 'done',
    canary = COALESCE(@canary::json, canary), refusals = COALESCE(@refusals::json, refusals),
    next_at = (SELECT CASE WHEN @paced AND rate_per_second IS NOT NULL
                           THEN GREATEST(next_at, statement_timestamp() - @slack::interval)
                                + (@done + @refused) / rate_per_second * interval '1 second'
                           ELSE statement_timestamp() + @pause::interval END),
    updated_at = statement_timestamp(),
    ended_at = (SELECT CASE WHEN @ended THEN statement_timestamp() END)
WHERE id = @id`

// RedriveStep is the result of one step.
type RedriveStep struct {
	// Worked says that this core held the redrive.
	Worked bool
	// Redriven are the jobs that were queued again, with their lanes.
	Redriven []Redriven
	// Discarded are the deleted jobs.
	Discarded []uuid.UUID

	row     redriveRow
	done    int64
	refused int64
	cursor  uuid.UUID
	ended   bool
	waiting bool
	// later are those of the batch that no cap has room for now.
	later []uuid.UUID
	// canary is what is stored of a sample that has not passed yet, pause the time until it is looked at again.
	canary *api.Canary
	pause  time.Duration
	// refusals are all so far of a bulk action, by code; nil where there are no new ones.
	refusals map[string]int64
	// told says that follow-ups were appended.
	told bool
}

func (r *RedriveStep) progress(random float64) store.Args {
	state, pause := api.RedriveRunning, redrivePause
	var waiting *string
	switch {
	case r.waiting:
		waiting, pause = store.NullIfEmpty(api.WaitingActiveCap), redriveWait
	case r.ended:
		state = api.RedriveDone
	}
	args := store.Args{
		"id": r.row.ID, "done": r.done, "refused": r.refused, "cursor": r.cursor, "waiting": waiting, "slack": redriveSlack,
		"paced": !r.waiting, "canary": nil, "refusals": nil,
	}
	if r.refusals != nil {
		args["refusals"] = string(store.JSON(r.refusals))
	}
	if r.canary != nil {
		args["canary"], args["paced"] = string(store.JSON(r.canary)), !r.waiting && r.done > 0
		switch r.canary.State {
		case api.CanarySampling, api.CanaryWaiting:
			pause = max(pause, r.pause)
		case api.CanaryFailed:
			state = api.RedriveStopped
		}
	}
	args["state"], args["ended"] = state, state != api.RedriveRunning
	args["pause"] = time.Duration((0.5 + random) * float64(pause))
	return args
}

// StepRedrive processes one batch of a redrive, if it is due and not locked by another core. The
// batch, its counts under the tenant's caps and the progress commit together: however often cores
// die, each dead letter is redriven and counted once. random is uniform in [0, 1).
// act does what a bulk action asks for.
func (s *Letters) StepRedrive(ctx context.Context, id uuid.UUID, capsOf CapsOf, act Act, random float64) (step RedriveStep, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	for range store.DeadlockTries {
		step, err = s.stepInTx(ctx, random, func(tx pgx.Tx) (RedriveStep, error) { return s.stepIn(ctx, tx, id, capsOf, act) })
		// A job with a dedupe_key was stored since the scan: the next scan sees it.
		if !store.IsUnique(err) && !store.Deadlocked(err) {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("deadletter: step of redrive %s: %w", id, err)
		if transient(err) || ctx.Err() != nil {
			return RedriveStep{}, err
		}
		return RedriveStep{}, errors.Join(err, s.failRedrive(ctx, id))
	}
	if step.told {
		s.edges.Appended()
	}
	s.gates.Appended()
	return step, nil
}

// transient says that an error is transient, not the redrive's own.
func transient(err error) bool {
	return errors.Is(err, store.ErrOverloaded) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) || store.IsUnique(err)
}

// failRedriveSQL counts a step that failed for a reason that is not transient.
const failRedriveSQL = `
UPDATE redrives
SET failures = failures + 1, next_at = (SELECT statement_timestamp() + power(2, failures) * interval '1 second'),
    updated_at = statement_timestamp(),
    state = CASE WHEN failures + 1 >= @most THEN 'failed' ELSE state END,
    waiting = CASE WHEN failures + 1 >= @most THEN NULL ELSE waiting END,
    error = CASE WHEN failures + 1 >= @most THEN @error ELSE error END,
    ended_at = (SELECT CASE WHEN failures + 1 >= @most THEN statement_timestamp() END)
WHERE id = @id AND ended_at IS NULL AND tenant_id <> ALL(` + store.MovingSQL + `)`

func (s *Letters) failRedrive(ctx context.Context, id uuid.UUID) error {
	return store.Exec(ctx, s.Store, failRedriveSQL, store.Args{
		// PostgreSQL's text is for the log only: it may contain what the tenant must not see.
		"id": id, "most": redriveFailures, "error": "The redrive failed repeatedly and was stopped. What was done stays done; core's log has the cause.",
	})
}

func (s *Letters) stepIn(ctx context.Context, tx pgx.Tx, id uuid.UUID, capsOf CapsOf, act Act) (RedriveStep, error) {
	rows, err := tx.Query(ctx, lockRedriveSQL, store.Args{"id": id})
	if err != nil {
		return RedriveStep{}, err
	}
	held, err := pgx.CollectRows(rows, pgx.RowToStructByName[redriveRow])
	if err != nil || len(held) == 0 {
		return RedriveStep{}, err
	}
	step := RedriveStep{Worked: true, row: held[0], cursor: held[0].Cursor}
	if step.row.sampling() {
		return step, s.canaryStep(ctx, tx, &step, capsOf)
	}
	if step.row.ofJobs() {
		return step, step.act(ctx, tx, act)
	}
	ids, err := step.nextBatch(ctx, tx)
	if err != nil || len(ids) == 0 {
		return step, err
	}
	if step.row.Action == api.ActionDiscard {
		return step, step.discard(ctx, tx, ids)
	}
	return step, s.redriveStep(ctx, tx, &step, ids, capsOf)
}

// redriveStep queues a batch again. It ends before the first job for which a cap is full: the redrive waits, and continues
// with that job.
func (s *Letters) redriveStep(ctx context.Context, tx pgx.Tx, step *RedriveStep, ids []uuid.UUID, capsOf CapsOf) error {
	some, err := s.redriveIn(ctx, tx, letters{owner: step.row.TenantID, ids: ids, deadBy: &step.row.CreatedAt, inOrder: true}, capsOf)
	if err != nil {
		return err
	}
	step.done, step.refused = int64(len(some.redriven)), int64(len(some.taken))
	for _, row := range some.redriven {
		step.Redriven = append(step.Redriven, redrivenOf(row))
	}
	if step.later = some.left; len(step.later) == 0 {
		return nil
	}
	step.waiting, step.ended, step.cursor = true, false, step.row.Cursor
	if first := slices.Index(ids, step.later[0]); first > 0 {
		step.cursor = ids[first-1]
	}
	return nil
}

// batch is the limit of a step.
func (r *redriveRow) batch() int {
	if r.RatePerSecond == nil {
		return redriveBatch
	}
	return int(min(max(*r.RatePerSecond*redriveSlice, 1), redriveBatch))
}

// scanDeadSQL reads the next of a tenant's dead letters, oldest job first, by the index of the
// lists. It gives those that match, and the last one read.
const scanDeadSQL = `
WITH chunk AS MATERIALIZED (
  SELECT id, queue, type, user_id, reason, fingerprint, died_at
  FROM dead_letters
  WHERE tenant_id = @tenant_id AND uuid_send(id) > uuid_send(@cursor::uuid)
  ORDER BY uuid_send(id)
  LIMIT @chunk
)
SELECT id, hit, read FROM (
  SELECT id, COALESCE(died_at <= @dead_by AND ` + deadMatches + `, false) AS hit,
         lead(id) OVER (ORDER BY uuid_send(id)) IS NULL AS last,
         count(*) OVER () AS read
  FROM chunk
) AS judged
WHERE hit OR last
ORDER BY uuid_send(id)`

type scannedDead struct {
	ID   uuid.UUID
	Hit  bool
	Read int64
}

// nextBatch finds the next batch and moves the cursor after it. It reads at most api.MaxPageRows rows,
// so it may find none and not be at the end.
func (r *RedriveStep) nextBatch(ctx context.Context, tx pgx.Tx) ([]uuid.UUID, error) {
	args := deadArgs(r.row.TenantID, r.row.user(), r.row.filter())
	args["dead_by"] = r.row.CreatedAt
	found, ended, err := store.ScanRows(&r.cursor, r.row.batch(), func(from uuid.UUID, limit int) ([]scannedDead, error) {
		args["cursor"], args["chunk"] = from, limit
		rows, err := tx.Query(ctx, scanDeadSQL, args)
		if err != nil {
			return nil, err
		}
		return pgx.CollectRows(rows, pgx.RowToStructByName[scannedDead])
	})
	if err != nil {
		return nil, err
	}
	r.ended = ended
	ids := make([]uuid.UUID, len(found))
	for i, one := range found {
		ids[i] = one.ID
	}
	return ids, nil
}

func (w scannedDead) Match() (id uuid.UUID, hit bool, read int64) { return w.ID, w.Hit, w.Read }

const discardMatchingSQL = `
WITH gone AS (
  DELETE FROM dead_letters
  WHERE ` + deadByID + ` AND died_at <= @dead_by
  RETURNING ` + dependency.RemovedColumns + `
)` + dependency.RemovedSQL

func (r *RedriveStep) discard(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
	rows, err := tx.Query(ctx, discardMatchingSQL, store.Args{"ids": ids, "tenant_id": r.row.TenantID, "dead_by": r.row.CreatedAt})
	if err != nil {
		return err
	}
	deleted, err := pgx.CollectRows(rows, pgx.RowToStructByName[dependency.Gone])
	r.Discarded, r.told = dependency.IDs(deleted)
	r.done = int64(len(r.Discarded))
	return err
}

// stepInTx makes a step and stores its progress in one transaction.
func (s *Letters) stepInTx(ctx context.Context, random float64, work func(pgx.Tx) (RedriveStep, error)) (step RedriveStep, err error) {
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		if step, err = work(tx); err != nil || !step.Worked {
			return err
		}
		_, err = tx.Exec(ctx, progressSQL, step.progress(random))
		return err
	})
	return step, err
}
