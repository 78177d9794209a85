// Package ended has the statements that change a job that has ended: its deletion. Reruns are new jobs, see package submits;
// redrives are in package deadletter.
package ended

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/ledger"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Jobs has the statements.
type Jobs struct {
	*store.Store
	edges *dependency.Edges
	gates *gate.Gate
}

// New makes them.
func New(s *store.Store, edges *dependency.Edges, gates *gate.Gate) *Jobs {
	return &Jobs{Store: s, edges: edges, gates: gates}
}

const deleteFinishedSQL = `
WITH gone AS (
  DELETE FROM finished_jobs
  WHERE id = @id AND finished_at >= @since AND tenant_id = @tenant_id AND (@user::text = '' OR user_id = @user)
  RETURNING tenant_id, state, started_at, finished_at, ` + ledger.LeftColumns + `
)` + ledger.DeletedSQL + `
SELECT state FROM gone`

// deleteDeadSQL also tells the children that the dead letter holds.
const deleteDeadSQL = `
WITH gone AS (
  DELETE FROM dead_letters WHERE id = @id AND tenant_id = @tenant_id AND (@user::text = '' OR user_id = @user)
  RETURNING ` + dependency.RemovedColumns + `
)` + dependency.RemovedSQL

// Edges to the children of the job stay as long as they: see dependency.ForgetEdges.
const (
	deleteAttemptsSQL = `
DELETE FROM attempts WHERE job_id = @id AND ended_at >= @since AND tenant_id = @tenant_id`
	deleteOutputSQL = `
DELETE FROM job_output WHERE job_id = @id AND at >= earliest_end(@id) AND tenant_id = @tenant_id`
	deleteSignalsSQL = `
DELETE FROM job_signals WHERE job_id = @id AND tenant_id = @tenant_id`
	deleteWaitSQL = `
DELETE FROM job_waits WHERE job_id = @id AND tenant_id = @tenant_id`
	deleteEdgesSQL = `
DELETE FROM dependencies WHERE child_id = @id`
)

// Delete forgets an ended job of a tenant, with its attempts, output and signals, and gives the state that it had. user, where
// not empty, is the only user whose jobs the caller may delete. A live job is jobs.ErrLive; unknown, foreign and
// another user's are ErrNotFound.
func (s *Jobs) Delete(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (job.State, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	var state job.State
	var told bool
	err := s.InTenantTx(ctx, owner, func(tx pgx.Tx) (err error) {
		// A dead letter that is redriven, and ends, between two statements is in neither. Each round
		// needs another such coincidence.
		const rounds = 3
		for range rounds {
			if state, told, err = deleteEnded(ctx, tx, owner, user, id); err != nil {
				return err
			}
			if state != "" {
				return audit.Record(ctx, tx, audit.Event{
					Tenant: &owner, Action: api.AuditJobDelete, Object: id.String(), Detail: map[string]any{"state": state},
				})
			}
			found, err := read.GetIn(ctx, tx, owner, user, id)
			if err != nil {
				return err
			}
			if !job.State(found.State).Terminal() {
				return jobs.ErrLive
			}
		}
		return store.ErrOverloaded
	})
	if err != nil {
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, jobs.ErrLive) {
			return "", err
		}
		return "", fmt.Errorf("jobs: delete: %w", err)
	}
	s.Committed(told)
	return state, nil
}

// deleteEnded deletes the job if it has ended; state is empty where it is not there.
func deleteEnded(ctx context.Context, tx pgx.Tx, owner tenant.ID, user string, id uuid.UUID) (state job.State, told bool, err error) {
	since := retention.Since(id)
	rows, err := tx.Query(ctx, deleteFinishedSQL, store.Args{"id": id, "since": since, "tenant_id": owner, "user": user})
	if err != nil {
		return "", false, err
	}
	finished, err := pgx.CollectRows(rows, pgx.RowTo[job.State])
	if err != nil {
		return "", false, err
	}
	if len(finished) == 1 {
		state = finished[0]
	} else {
		if rows, err = tx.Query(ctx, deleteDeadSQL, store.Args{"id": id, "tenant_id": owner, "user": user}); err != nil {
			return "", false, err
		}
		dead, err := pgx.CollectRows(rows, pgx.RowToStructByName[dependency.Gone])
		if err != nil || len(dead) == 0 {
			return "", false, err
		}
		state, told = job.DeadLetter, dead[0].Told
	}
	batch := &pgx.Batch{}
	batch.Queue(deleteAttemptsSQL, store.Args{"id": id, "since": since, "tenant_id": owner})
	batch.Queue(deleteOutputSQL, store.Args{"id": id, "tenant_id": owner})
	batch.Queue(deleteSignalsSQL, store.Args{"id": id, "tenant_id": owner})
	batch.Queue(deleteWaitSQL, store.Args{"id": id, "tenant_id": owner})
	batch.Queue(deleteEdgesSQL, store.Args{"id": id})
	return state, told, tx.SendBatch(ctx, batch).Close()
}

// DeleteSome deletes those of some jobs that have ended, in a transaction, after which Committed is to be called with told.
func DeleteSome(ctx context.Context, tx pgx.Tx, owner tenant.ID, user string, ids []uuid.UUID) (deleted []uuid.UUID, told bool, err error) {
	for _, id := range ids {
		state, one, err := deleteEnded(ctx, tx, owner, user, id)
		if err != nil {
			return nil, false, err
		}
		if told = told || one; state != "" {
			deleted = append(deleted, id)
		}
	}
	return deleted, told, nil
}

// Committed is called after the commit of deletions; told says that jobs which came after them were.
func (s *Jobs) Committed(told bool) {
	if told {
		s.edges.Appended()
		s.gates.Appended()
	}
}
