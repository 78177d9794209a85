package queue

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Reaped is a job whose lease was taken back.
type Reaped struct {
	ID uuid.UUID
	// Ready is where the job stands, should the verdict have queued it.
	Ready   Ready
	Queue   string
	Event   job.Event
	Verdict job.Verdict
	// Late is how long after its end the lease was taken back.
	Late time.Duration
	// Attempt is what is told of it; nil where nobody asks, or none ended.
	Attempt *EndedAttempt

	ended time.Time
}

// expiredSQL locks leases that have run out, oldest first. Rows that somebody
// else holds, a finish under way or another core's reaper, are left to them.
//
// Holders speak first: see heardSQL.
const expiredSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE state = 'running' AND lease_expires_at < statement_timestamp() AND lease_expires_at >= statement_timestamp() - @reach::interval
  -- where the batch before ended: its dead entries are not walked again, which an old
  -- snapshot would keep in the index (100,000 leases: 63 s without this, 20 s with it)
  AND (lease_expires_at, id) > (@after::timestamptz, @after_id::uuid)
  AND ` + heardSQL + `
ORDER BY lease_expires_at, id
LIMIT @batch
FOR UPDATE SKIP LOCKED`

// Reap takes back at most batch expired leases, of any tenants. On the last
// attempt the job becomes a dead letter (D6), otherwise it is queued again; an
// attempt that ran past its timeout_ms has failed and waits by its backoff.
// since is when PostgreSQL answered first; random is uniform in [0, 1).
func (s *Jobs) Reap(ctx context.Context, since time.Time, batch int, random func() float64) ([]Reaped, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	hearing := &Hearing{Silences: []Silence{{since, Longest}}}
	reaped, _, err := s.ReapAfter(ctx, hearing, Ever, ReapPlace{}, batch, random)
	return reaped, err
}

// ReapPlace is where a batch ended; the zero value is the beginning.
type ReapPlace struct {
	ended time.Time
	id    uuid.UUID
}

// ReapAfter is Reap behind a place, and gives the next one. Leases that expired longer
// ago than reach are not looked for; see Ever. What a batch leaves to
// somebody who holds it is behind: only from the beginning it is found again.
func (s *Jobs) ReapAfter(ctx context.Context, hearing *Hearing, reach time.Duration, place ReapPlace, batch int, random func() float64) ([]Reaped, ReapPlace, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	args := hearing.args()
	args["reach"], args["after"], args["after_id"], args["batch"] = reach, place.ended, place.id, batch
	reaped, err := s.takeBack(ctx, expiredSQL, args, random)
	for i := range reaped {
		if one := &reaped[i]; place.before(one.ended, one.ID) {
			place = ReapPlace{one.ended, one.ID}
		}
	}
	return reaped, place, err
}

func (p ReapPlace) before(ended time.Time, id uuid.UUID) bool {
	return p.ended.Before(ended) || p.ended.Equal(ended) && bytes.Compare(p.id[:], id[:]) < 0
}

// ofDeadSQL locks the leases of workers that are dead. Dead workers are few and so
// are running jobs, next to those that wait: an index by worker would cost every
// claim and every finish.
const ofDeadSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE state = 'running'
  AND (worker_owner, worker_id) IN (SELECT owner, worker_id FROM workers WHERE status = 'DEAD')
ORDER BY lease_expires_at, id
LIMIT @batch
FOR UPDATE OF jobs SKIP LOCKED`

// ReapDead takes back at most batch leases, of any tenants, whose worker is dead,
// as if they had expired.
func (s *Jobs) ReapDead(ctx context.Context, batch int, random func() float64) ([]Reaped, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	return s.takeBack(ctx, ofDeadSQL, pgx.StrictNamedArgs{"batch": batch}, random)
}

func (s *Jobs) takeBack(ctx context.Context, sql string, args pgx.StrictNamedArgs, random func() float64) ([]Reaped, error) {
	var reaped []Reaped
	err := s.InTx(ctx, func(tx pgx.Tx) error {
		rows, err := lockRows(ctx, tx, sql, args)
		if err != nil {
			return err
		}
		reaped = nil // of an earlier run
		settlements := make([]*settlement, 0, len(rows))
		for _, row := range rows {
			made, event, err := reapOne(row, random())
			if err != nil {
				return err
			}
			settlements = append(settlements, made)
			reaped = append(reaped, Reaped{
				ID: row.ID, Ready: Ready{Lane: row.LaneID, Priority: row.Priority, At: row.Now}, Queue: row.Queue, Event: event, Verdict: made.verdict,
				Late: max(row.Now.Sub(*row.LeaseExpiresAt), 0), Attempt: s.attemptOf(row), ended: *row.LeaseExpiresAt,
			})
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
		Message: fmt.Sprintf("worker %s neither finished nor sent a heartbeat before its lease ended", *row.WorkerID),
	}
	if row.TimeoutMs != nil {
		end := row.StartedAt.Add(time.Duration(*row.TimeoutMs) * time.Millisecond)
		// The lease of a dead worker is taken before its end: that is no timeout yet.
		if !row.LeaseExpiresAt.Before(end) && !row.Now.Before(end) {
			event, kind = job.Timeout, "timeout"
			failure = &api.JobError{Type: "timeout", Message: fmt.Sprintf("the attempt ran past its timeout_ms of %d", *row.TimeoutMs)}
		}
	}
	verdict, err := job.Next(job.Running, event, reapedFacts(row))
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

// reapedFacts are what becomes of a lease that nobody kept: an attempt was spent,
// and it may have been the last (D6).
func reapedFacts(row *lockedRow) job.Facts { return row.facts() }
