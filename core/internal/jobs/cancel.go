package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// visibleSQL is a tenant's job as its caller may see it: a user-bound caller sees only its own
// user's jobs.
const visibleSQL = `id = @id AND tenant_id = @tenant_id AND (@user::text = '' OR user_id = @user)`

const lockVisibleSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE ` + visibleSQL + `
FOR UPDATE`

// requestCancelSQL asks the holder to stop, by the answer to its next heartbeat.
const requestCancelSQL = `
UPDATE jobs SET cancel_requested = true WHERE id = @id`

// CancelResult is the result of a cancel.
type CancelResult string

// The job waited and has ended, or it runs and its holder is asked to stop, or it was cancelled
// before.
const (
	CancelEnded     CancelResult = "ended"
	CancelRequested CancelResult = "requested"
	CancelRepeated  CancelResult = "repeated"
)

// Cancel ends a waiting job at once, and requests the cancel of a running one. A job that is
// already cancelled is given unchanged; one that has ended otherwise is ErrTerminal. A repeat
// changes nothing.
func (s *Jobs) Cancel(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.JobSummary, CancelResult, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	// A dead letter may be redriven between the two reads. The probability that this repeats falls
	// fast.
	const rounds = 10
	for range rounds {
		var found api.Job
		var did CancelResult
		var live []*lockedRow
		err := s.InShortTx(ctx, func(batch *pgx.Batch) {
			store.QueueServed(batch, owner)
			queueLockRows(batch, &live, lockVisibleSQL, store.Args{"id": id, "tenant_id": owner, "user": user})
		}, func(tx pgx.Tx) (_ *pgx.Batch, err error) {
			if did, err = cancelLive(ctx, tx, live); err == nil {
				found, err = read.GetIn(ctx, tx, owner, user, id)
			}
			return nil, err
		})
		switch {
		case errors.Is(err, store.ErrNotFound):
			return api.JobSummary{}, "", err
		case err != nil:
			return api.JobSummary{}, "", fmt.Errorf("jobs: cancel: %w", err)
		case did != "":
			if did == CancelEnded {
				s.follow(live[0])
			}
			return found.JobSummary, did, nil
		case job.State(found.State) == job.Cancelled:
			return found.JobSummary, CancelRepeated, nil
		case job.State(found.State).Terminal():
			return api.JobSummary{}, "", ErrTerminal
		}
	}
	return api.JobSummary{}, "", fmt.Errorf("jobs: cancel: %w: the job was redriven %d times", store.ErrOverloaded, rounds)
}

// cancelLive cancels a live job that the transaction has locked; "" where there is none.
func cancelLive(ctx context.Context, tx pgx.Tx, live []*lockedRow) (CancelResult, error) {
	if len(live) == 0 {
		return "", nil
	}
	row := live[0]
	verdict, err := job.Next(row.State, job.Cancel, row.facts())
	if err != nil {
		return "", err
	}
	if !verdict.State.Terminal() {
		_, err = tx.Exec(ctx, requestCancelSQL, store.Args{"id": row.ID})
		return CancelRequested, err
	}
	return CancelEnded, tx.SendBatch(ctx, finish([]*transition{{row: row, verdict: verdict}})).Close()
}

const lockOwnedSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE id = ANY(@ids::uuid[]) AND uuid_send(tenant_id) = uuid_send(@tenant_id::uuid)
ORDER BY id
FOR UPDATE`

const requestCancelsSQL = `
UPDATE jobs SET cancel_requested = true WHERE id = ANY(@ids::uuid[])`

// Cancelled is what a cancel of some jobs did.
type Cancelled struct {
	// Ended are those that waited, Requested those whose holders are asked to stop.
	Ended     []Change
	Requested []uuid.UUID
	// Running are those that were to be left if they run.
	Running []uuid.UUID

	transitions []*transition
}

// cancelSome decides what becomes of locked jobs; running ones are left where leave says so.
func cancelSome(live []*lockedRow, leave bool) (made Cancelled, batch *pgx.Batch, err error) {
	for _, row := range live {
		verdict, err := job.Next(row.State, job.Cancel, row.facts())
		if err != nil {
			return made, nil, err
		}
		switch {
		case verdict.State.Terminal():
			one := &transition{row: row, verdict: verdict}
			made.transitions = append(made.transitions, one)
			made.Ended = append(made.Ended, one.change(job.Cancel))
		case leave:
			made.Running = append(made.Running, row.ID)
		default:
			made.Requested = append(made.Requested, row.ID)
		}
	}
	batch = finish(made.transitions)
	if len(made.Requested) > 0 {
		batch.Queue(requestCancelsSQL, store.Args{"ids": made.Requested})
	}
	return made, batch, nil
}

// CancelAll does what Cancel does for some of a tenant's jobs, in one transaction, and gives those
// that have ended, and those whose holders are asked to stop. Jobs that have ended before are left as they are.
func (s *Jobs) CancelAll(ctx context.Context, owner tenant.ID, ids []uuid.UUID) (ended []Change, requested []uuid.UUID, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	var live []*lockedRow
	var made Cancelled
	err = s.InShortTx(ctx, func(batch *pgx.Batch) {
		store.QueueServed(batch, owner)
		queueLockRows(batch, &live, lockOwnedSQL, store.Args{"ids": ids, "tenant_id": owner})
	}, func(pgx.Tx) (batch *pgx.Batch, err error) {
		made, batch, err = cancelSome(live, false)
		return batch, err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("jobs: cancel: %w", err)
	}
	s.Committed(&made)
	return made.Ended, made.Requested, nil
}

// CancelSome is CancelAll in a transaction, after which Committed is to be called. Jobs that run are left where leave says so.
func CancelSome(ctx context.Context, tx pgx.Tx, owner tenant.ID, ids []uuid.UUID, leave bool) (Cancelled, error) {
	rows, err := tx.Query(ctx, lockOwnedSQL, store.Args{"ids": ids, "tenant_id": owner})
	if err != nil {
		return Cancelled{}, err
	}
	live, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[lockedRow])
	if err != nil {
		return Cancelled{}, err
	}
	made, batch, err := cancelSome(live, leave)
	if err != nil || batch.Len() == 0 {
		return made, err
	}
	return made, tx.SendBatch(ctx, batch).Close()
}

// Committed is called after the commit of a cancel.
func (s *Jobs) Committed(made *Cancelled) { s.appended(made.transitions) }

const lockLiveSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE id = ANY(@ids::uuid[])
ORDER BY id
FOR UPDATE`

// CancelIn cancels jobs, of any tenants, as Cancel does, in the transaction of what replaces them. It
// gives the jobs that waited and have ended, and those that run and are asked to stop; those that have
// ended before stay as they are.
func CancelIn(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (ended []Change, requested []uuid.UUID, err error) {
	rows, err := tx.Query(ctx, lockLiveSQL, store.Args{"ids": ids})
	if err != nil {
		return nil, nil, err
	}
	live, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[lockedRow])
	if err != nil {
		return nil, nil, err
	}
	for i := range live {
		did, err := cancelLive(ctx, tx, live[i:i+1])
		if err != nil {
			return nil, nil, err
		}
		if did == CancelRequested {
			requested = append(requested, live[i].ID)
		}
		if did == CancelEnded {
			cancelled := transition{row: live[i], verdict: job.Verdict{State: job.Cancelled}}
			ended = append(ended, cancelled.change(job.Cancel))
		}
	}
	return ended, requested, nil
}
