package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// pastDeadlineSQL locks live jobs, waiting or running, that are past their deadline.
const pastDeadlineSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE deadline IS NOT NULL AND deadline <= statement_timestamp() AND deadline >= statement_timestamp() - @lookback::interval
ORDER BY deadline
LIMIT @batch
FOR UPDATE SKIP LOCKED`

// ExpireDeadlines makes dead letters of at most batch jobs, of any tenants, whose deadline has
// passed. The holder of a running one loses its lease.
func (s *Jobs) ExpireDeadlines(ctx context.Context, lookback time.Duration, batch int) ([]Reaped, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	var expired []Reaped
	err := s.InTx(ctx, func(tx pgx.Tx) error {
		rows, err := lockRows(ctx, tx, pastDeadlineSQL, pgx.StrictNamedArgs{"lookback": lookback, "batch": batch})
		if err != nil {
			return err
		}
		expired = nil // of the first try, see InTx
		transitions := make([]*transition, 0, len(rows))
		for _, row := range rows {
			verdict, err := job.Next(row.State, job.DeadlinePast, row.facts())
			if err != nil {
				return err
			}
			made := &transition{row: row, verdict: verdict, err: &api.JobError{
				Type: "deadline", Message: "the deadline passed while the job was " + string(row.State),
			}}
			if row.State == job.Running {
				made.attemptKind = "timeout"
			}
			if verdict.State == job.Cancelled {
				made.attemptKind = "cancelled"
			}
			transitions = append(transitions, made)
			expired = append(expired, Reaped{ID: row.ID, Ready: Ready{Lane: row.LaneID}, Queue: row.Queue, Event: job.DeadlinePast, Verdict: verdict, Attempt: s.attemptOf(row)})
		}
		return finish(ctx, tx, transitions)
	})
	if err != nil {
		return nil, fmt.Errorf("queue: expire deadlines: %w", err)
	}
	return expired, nil
}

// lockRows runs a statement that locks live jobs.
func lockRows(ctx context.Context, tx pgx.Tx, sql string, args pgx.StrictNamedArgs) ([]*lockedRow, error) {
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[lockedRow])
}

// IDs lists the jobs.
func IDs(reaped []Reaped) []uuid.UUID {
	ids := make([]uuid.UUID, len(reaped))
	for i := range reaped {
		ids[i] = reaped[i].ID
	}
	return ids
}
