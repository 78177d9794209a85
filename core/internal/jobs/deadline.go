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

// nextDeadlineSQL looks ahead only a little: most jobs end before their deadline, and an old snapshot keeps the entries of
// them all in the index.
const nextDeadlineSQL = `
SELECT deadline - statement_timestamp() FROM jobs
WHERE deadline IS NOT NULL AND deadline >= statement_timestamp() - @lookback::interval AND deadline <= statement_timestamp() + @ahead::interval
  AND tenant_id <> ALL(` + store.MovingNowSQL + `)
ORDER BY deadline
LIMIT 1`

// NextDeadline gives the time until the next deadline of a live job of any tenant, by PostgreSQL's clock; false if there
// is none within ahead. Deadlines longer ago than lookback are left out. It locks nothing.
func (s *Jobs) NextDeadline(ctx context.Context, lookback, ahead time.Duration) (time.Duration, bool, error) {
	found, err := store.Query(ctx, s.Store, pgx.RowTo[time.Duration], nextDeadlineSQL, store.Args{"lookback": lookback, "ahead": ahead})
	if err != nil {
		return 0, false, fmt.Errorf("jobs: next deadline: %w", store.NotApplied(err))
	}
	if len(found) == 0 {
		return 0, false, nil
	}
	return found[0], true, nil
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
