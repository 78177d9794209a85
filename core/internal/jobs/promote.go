package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// promoteSQL queues due jobs, and those that have waited for signals for as long as they would. Their ready_at is now and not their run_at: they are at the end of
// their list, after every cursor. Those with a key come to the gate of it.
const promoteSQL = `
WITH due AS (
  SELECT id FROM jobs
  WHERE state IN ('scheduled', 'waiting') AND run_at <= statement_timestamp() AND run_at >= statement_timestamp() - @lookback::interval
    AND tenant_id <> ALL(` + store.MovingSQL + `)
  ORDER BY run_at, id
  LIMIT @batch
  FOR UPDATE SKIP LOCKED
), promoted AS (
  UPDATE jobs
  SET state = 'queued',
      ready_at      = (SELECT CASE WHEN key IS NULL THEN statement_timestamp() END),
      waiting_since = (SELECT CASE WHEN key IS NOT NULL THEN statement_timestamp() END)
  WHERE id = ANY(ARRAY(SELECT id FROM due))
  RETURNING ` + promotedColumns + `
)` + promotedSQL

const (
	promotedColumns = `id, tenant_id, queue, key, lane_id, priority, ready_at`
	// promotedSQL gives the jobs in promoted, which are queued now, and has the gates of their keys checked.
	promotedSQL = `, checked AS (
  INSERT INTO key_checks (tenant_id, queue, keys) SELECT tenant_id, queue, array_agg(DISTINCT key) FROM promoted WHERE key IS NOT NULL GROUP BY tenant_id, queue
)
SELECT id, lane_id AS lane, priority, COALESCE(ready_at, 'epoch') AS at, key IS NOT NULL AS to_gate FROM promoted`
)

// AllTime is a lookback without a bound. Duties scan an index by time from its head, and under an
// old snapshot the head has many dead entries: so most runs have a short lookback.
const AllTime = 100 * 365 * 24 * time.Hour

// Promote queues at most batch due jobs, of any tenants, without those that were due longer ago
// than lookback. One with a key has no At.
func (s *Jobs) Promote(ctx context.Context, lookback time.Duration, batch int) ([]Ready, error) {
	due, err := store.Query(ctx, s.Store, pgx.RowToStructByName[promoted], promoteSQL, store.Args{"lookback": lookback, "batch": batch})
	if err != nil {
		return nil, fmt.Errorf("jobs: promote: %w", err)
	}
	return s.promoted(due), nil
}

// promoted is called after the commit that has queued jobs.
func (s *Jobs) promoted(due []promoted) []Ready {
	jobs := make([]Ready, len(due))
	for i := range due {
		if jobs[i] = due[i].Ready; due[i].ToGate {
			jobs[i].At = time.Time{}
			s.gates.Appended()
		}
	}
	return jobs
}

type promoted struct {
	Ready
	// ToGate: the job came to the gate of its key.
	ToGate bool
}

const nextDueSQL = `
SELECT run_at - statement_timestamp() FROM jobs
WHERE state IN ('scheduled', 'waiting') AND run_at >= statement_timestamp() - @lookback::interval
  AND tenant_id <> ALL(` + store.MovingNowSQL + `)
ORDER BY run_at, id
LIMIT 1`

// NextDue gives the time until the next scheduled job of any tenant is due, by PostgreSQL's clock;
// false if there is none. Jobs that were due longer ago than lookback are left out.
func (s *Jobs) NextDue(ctx context.Context, lookback time.Duration) (time.Duration, bool, error) {
	waits, err := store.Query(ctx, s.Store, pgx.RowTo[time.Duration], nextDueSQL, store.Args{"lookback": lookback})
	if err != nil {
		return 0, false, fmt.Errorf("jobs: next due: %w", store.NotApplied(err))
	}
	if len(waits) == 0 {
		return 0, false, nil
	}
	return waits[0], true, nil
}
