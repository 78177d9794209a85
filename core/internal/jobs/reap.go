package jobs

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

// expiredSQL locks leases that have expired, oldest first. Rows that are locked by a finish
// or by another core's reaper are skipped.
//
// Leases in a grace period are left, see graceSQL.
const expiredSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE state = 'running' AND lease_expires_at < statement_timestamp() AND lease_expires_at >= statement_timestamp() - @lookback::interval
  -- where the batch before ended: its dead entries are not scanned again, which an old
  -- snapshot would keep in the index (100,000 leases: 63 s without this, 20 s with it)
  AND (lease_expires_at, id) > (@after::timestamptz, @after_id::uuid)
  AND ` + graceSQL + `
  AND tenant_id <> ALL(` + store.MovingSQL + `)
ORDER BY lease_expires_at, id
LIMIT @batch
FOR UPDATE SKIP LOCKED`

const leasesSQL = `
SELECT statement_timestamp(),
       EXISTS (SELECT FROM jobs WHERE state = 'running' AND lease_expires_at >= statement_timestamp()),
       EXISTS (SELECT FROM jobs WHERE state = 'running' AND lease_expires_at < statement_timestamp() AND lease_expires_at >= statement_timestamp() - @lookback::interval)`

// Leases says what leases there are.
type Leases struct {
	// Now is PostgreSQL's time.
	Now time.Time
	// Held: a lease has not expired. Expired: one has, and ReapAfter may find it.
	Held, Expired bool
}

// Leases looks for leases, of any tenants. Those that expired longer ago than lookback are left out. It locks nothing.
func (s *Jobs) Leases(ctx context.Context, lookback time.Duration) (found Leases, err error) {
	ctx, cancel := context.WithTimeout(store.WithClass(ctx, store.ClassOutcomes), store.NowTime)
	defer cancel()
	rows, err := store.Query(ctx, s.Store, func(row pgx.CollectableRow) (found Leases, err error) {
		return found, row.Scan(&found.Now, &found.Held, &found.Expired)
	}, leasesSQL, store.Args{"lookback": lookback})
	if err != nil {
		return found, fmt.Errorf("jobs: leases: %w", store.NotApplied(err))
	}
	return rows[0], nil
}

// Reap reaps at most batch expired leases, of any tenants. After the last attempt the job becomes a
// dead letter (D6), otherwise it is queued again; an attempt that ran past its timeout_ms has
// failed and waits by its backoff. since is when PostgreSQL answered first; random is uniform in
// [0, 1).
func (s *Jobs) Reap(ctx context.Context, since time.Time, batch int, random func() float64) ([]Change, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	contact := &Contact{Outages: []Outage{{since, UnknownLength}}}
	reaped, _, err := s.ReapAfter(ctx, contact, AllTime, ReapPlace{}, batch, random)
	return reaped, err
}

// ReapPlace is where a batch ended; the zero value is the beginning.
type ReapPlace struct {
	ended time.Time
	id    uuid.UUID
}

// ReapAfter is Reap after a place, and gives the next one. Leases that expired longer ago than
// lookback are skipped; see AllTime. Rows that a batch skips because they are locked are found
// again only from the beginning.
func (s *Jobs) ReapAfter(ctx context.Context, contact *Contact, lookback time.Duration, place ReapPlace, batch int, random func() float64) ([]Change, ReapPlace, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	args := contact.args()
	args["lookback"], args["after"], args["after_id"], args["batch"] = lookback, place.ended, place.id, batch
	reaped, err := s.reapRows(ctx, expiredSQL, args, random)
	for i := range reaped {
		if one := &reaped[i]; place.before(one.leaseEnded, one.ID) {
			place = ReapPlace{one.leaseEnded, one.ID}
		}
	}
	return reaped, place, err
}

func (p ReapPlace) before(ended time.Time, id uuid.UUID) bool {
	return p.ended.Before(ended) || p.ended.Equal(ended) && bytes.Compare(p.id[:], id[:]) < 0
}

// ofDeadWorkersSQL locks the leases of dead workers. Dead workers are few and so are running jobs,
// compared with waiting ones: an index by worker would cost every claim and every finish.
const ofDeadWorkersSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE state = 'running'
  AND (worker_owner, worker_id) IN (SELECT owner, worker_id FROM workers WHERE status = 'DEAD')
  AND tenant_id <> ALL(` + store.MovingSQL + `)
ORDER BY lease_expires_at, id
LIMIT @batch
FOR UPDATE OF jobs SKIP LOCKED`

// ReapDead reaps at most batch leases, of any tenants, of dead workers, as if they had expired.
func (s *Jobs) ReapDead(ctx context.Context, batch int, random func() float64) ([]Change, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	return s.reapRows(ctx, ofDeadWorkersSQL, store.Args{"batch": batch}, random)
}

func (s *Jobs) reapRows(ctx context.Context, sql string, args store.Args, random func() float64) ([]Change, error) {
	var reaped []Change
	transitions, err := s.sweep(ctx, sql, args, func(rows []*lockedRow) ([]*transition, error) {
		reaped = nil // of the first try, see InTx
		transitions := make([]*transition, 0, len(rows))
		for _, row := range rows {
			made, event, err := reapTransition(row, random())
			if err != nil {
				return nil, err
			}
			transitions = append(transitions, made)
			one := made.change(event)
			one.Late, one.Attempt, one.leaseEnded = max(row.Now.Sub(*row.LeaseExpiresAt), 0), s.attemptOf(row), *row.LeaseExpiresAt
			reaped = append(reaped, one)
		}
		return transitions, nil
	})
	if err != nil {
		return nil, fmt.Errorf("jobs: reap: %w", err)
	}
	s.appended(transitions)
	return reaped, nil
}

func reapTransition(row *lockedRow, random float64) (*transition, job.Event, error) {
	event, kind := job.LeaseExpired, "lease_expired"
	failure := &api.JobError{
		Type:    "lease_expired",
		Message: fmt.Sprintf("worker %s neither finished nor sent a heartbeat before its lease ended", *row.WorkerID),
	}
	if row.TimeoutMs != nil {
		end := row.StartedAt.Add(time.Duration(*row.TimeoutMs) * time.Millisecond)
		// The lease of a dead worker is reaped before its end: that is no timeout yet.
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
	made := &transition{row: row, verdict: verdict, err: failure, attemptKind: kind}
	if verdict.Backoff {
		made.delay = row.retry().Wait(int(row.Attempt), random)
	}
	return made, event, nil
}

// reapedFacts are the facts of a reaped lease: an attempt was spent, and it may have been the last
// (D6).
func reapedFacts(row *lockedRow) job.Facts { return row.facts() }
