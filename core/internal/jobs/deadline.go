package jobs

import (
	"context"
	"fmt"
	"time"

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
  AND tenant_id <> ALL(` + store.MovingSQL + `)
ORDER BY deadline
LIMIT @batch
FOR UPDATE SKIP LOCKED`

const anyPastDeadlineSQL = `
SELECT EXISTS (
  SELECT FROM jobs WHERE deadline IS NOT NULL AND deadline <= statement_timestamp() AND deadline >= statement_timestamp() - @lookback::interval)`

// AnyPastDeadline says whether ExpireDeadlines may find a job. It locks nothing.
func (s *Jobs) AnyPastDeadline(ctx context.Context, lookback time.Duration) (bool, error) {
	found, err := store.Query(ctx, s.Store, pgx.RowTo[bool], anyPastDeadlineSQL, store.Args{"lookback": lookback})
	if err != nil {
		return false, fmt.Errorf("jobs: past deadlines: %w", store.NotApplied(err))
	}
	return found[0], nil
}

// ExpireDeadlines makes dead letters of at most batch jobs, of any tenants, whose deadline has
// passed. The holder of a running one loses its lease.
func (s *Jobs) ExpireDeadlines(ctx context.Context, lookback time.Duration, batch int) ([]Change, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	var expired []Change
	transitions, err := s.sweep(ctx, pastDeadlineSQL, store.Args{"lookback": lookback, "batch": batch}, func(rows []*lockedRow) ([]*transition, error) {
		expired = nil // of the first try, see InTx
		transitions := make([]*transition, 0, len(rows))
		for _, row := range rows {
			verdict, err := job.Next(row.State, job.DeadlinePast, row.facts())
			if err != nil {
				return nil, err
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
			one := made.change(job.DeadlinePast)
			one.Attempt = s.attemptOf(row)
			expired = append(expired, one)
		}
		return transitions, nil
	})
	if err != nil {
		return nil, fmt.Errorf("jobs: expire deadlines: %w", err)
	}
	s.appended(transitions)
	return expired, nil
}

// sweep ends live jobs of any tenants: made gives the transitions of those that were locked.
func (s *Jobs) sweep(ctx context.Context, sql string, args store.Args, made func([]*lockedRow) ([]*transition, error)) (transitions []*transition, err error) {
	var rows []*lockedRow
	err = s.InShortTx(ctx, func(batch *pgx.Batch) {
		queueLockRows(batch, &rows, sql, args)
	}, func(pgx.Tx) (*pgx.Batch, error) {
		if transitions, err = made(rows); err != nil {
			return nil, err
		}
		return finish(transitions), nil
	})
	return transitions, err
}

// queueLockRows locks live jobs as part of a batch: rows has them once that has run.
func queueLockRows(batch *pgx.Batch, rows *[]*lockedRow, sql string, args store.Args) {
	batch.Queue(sql, args).Query(func(found pgx.Rows) (err error) {
		*rows, err = pgx.CollectRows(found, pgx.RowToAddrOfStructByName[lockedRow])
		return err
	})
}
