package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/shared/api"
)

// expiredSQL locks leases that have run out, oldest first. Rows that somebody
// else holds, a finish under way or another core's reaper, are left to them.
//
// After this core has come up, or PostgreSQL has, holders get a third of their
// visibility timeout to speak first: nobody could have heard them before.
const expiredSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE state = 'running' AND lease_expires_at < statement_timestamp()
  AND @since::timestamptz + visibility_timeout_ms * interval '1 millisecond' / 3 <= statement_timestamp()
ORDER BY lease_expires_at, id
LIMIT @batch
FOR UPDATE SKIP LOCKED`

// Reaped is a job whose lease was taken back.
type Reaped struct {
	Lane    LaneID
	Queue   string
	Event   job.Event
	Verdict job.Verdict
	// Late is how long after its end the lease was taken back.
	Late time.Duration
}

// Reap takes back at most batch expired leases, of any tenants. On the last
// attempt the job becomes a dead letter (D6), otherwise it is queued again; an
// attempt that ran past its timeout_ms has failed and waits by its backoff.
// random is uniform in [0, 1).
func (s *Store) Reap(ctx context.Context, since time.Time, batch int, random func() float64) ([]Reaped, error) {
	var reaped []Reaped
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, expiredSQL, pgx.StrictNamedArgs{"since": since, "batch": batch})
		if err != nil {
			return err
		}
		expired, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[lockedRow])
		if err != nil {
			return err
		}
		settlements := make([]*settlement, 0, len(expired))
		for _, row := range expired {
			made, event, err := reapOne(row, random())
			if err != nil {
				return err
			}
			settlements = append(settlements, made)
			reaped = append(reaped, Reaped{row.LaneID, row.Queue, event, made.verdict, row.Now.Sub(row.LeaseExpiresAt)})
		}
		return settle(ctx, tx, settlements)
	})
	if err != nil {
		return nil, fmt.Errorf("queue: reap: %w", err)
	}
	return reaped, nil
}

func reapOne(row *lockedRow, random float64) (*settlement, job.Event, error) {
	event, kind := job.LeaseExpired, "lease_expired"
	failure := &api.JobError{
		Type:    "lease_expired",
		Message: fmt.Sprintf("worker %s neither finished nor sent a heartbeat before its lease ended", row.WorkerID),
	}
	if row.TimeoutMs != nil {
		end := row.StartedAt.Add(time.Duration(*row.TimeoutMs) * time.Millisecond)
		if !row.LeaseExpiresAt.Before(end) {
			event, kind = job.Timeout, "timeout"
			failure = &api.JobError{Type: "timeout", Message: fmt.Sprintf("the attempt ran past its timeout_ms of %d", *row.TimeoutMs)}
		}
	}
	verdict, err := job.Next(job.Running, event, row.facts())
	if err != nil {
		return nil, event, err
	}
	if verdict.State == job.Cancelled {
		kind = "cancelled"
	}
	made := &settlement{row: row, verdict: verdict, err: failure, attemptKind: kind}
	if verdict.Backoff {
		made.delay = row.retry().Wait(int(row.Attempt), random)
	}
	return made, event, nil
}

// Now is PostgreSQL's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer conn.Release()
	now, err := clock(ctx, conn)
	return now, nothingChanged(classify(err))
}
