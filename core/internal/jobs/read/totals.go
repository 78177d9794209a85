package read

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// totalsTime bounds the counting: under an old snapshot, an unknown number of dead entries lies
// before the live ones.
const totalsTime = 500 * time.Millisecond

// workersSQL counts workers by status. They are few.
const workersSQL = `
       count(*) FILTER (WHERE status = 'ACTIVE') AS active,
       count(*) FILTER (WHERE status = 'STALE')  AS stale,
       count(*) FILTER (WHERE status = 'DEAD')   AS dead
FROM workers`

// estimatesSQL is autovacuum's last estimate; below 0 before its first run. Blocked jobs have no
// index of their own, and no estimate.
const estimatesSQL = `
       (SELECT reltuples::bigint FROM pg_class WHERE oid = 'jobs_ready'::regclass)          AS queued_about,
       (SELECT reltuples::bigint FROM pg_class WHERE oid = 'jobs_scheduled'::regclass)      AS scheduled_about,
       (SELECT reltuples::bigint FROM pg_class WHERE oid = 'jobs_running'::regclass)        AS running_about,
       (SELECT reltuples::bigint FROM pg_class WHERE oid = 'dead_letters_by_age'::regclass) AS dead_letter_about,`

// totalsSQL counts the jobs of all tenants by state: each count scans the state's own index from
// its head, and stops at the limit.
const totalsSQL = `
WITH waiting AS (
  SELECT state FROM jobs WHERE state IN ('blocked', 'scheduled', 'waiting') ORDER BY lane_id, state LIMIT @most
)
SELECT statement_timestamp() AS now,
       (SELECT count(*) FROM waiting)                             AS counted,
       (SELECT count(*) FROM waiting WHERE state = 'waiting')     AS waiting,
       (SELECT count(*) FROM waiting WHERE state = 'blocked')     AS blocked,
       (SELECT count(*) FROM waiting WHERE state = 'scheduled')   AS scheduled,
       (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'queued' ORDER BY lane_id, priority, ready_at, id LIMIT @most) c)  AS queued,
       (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'running' ORDER BY lease_expires_at, id LIMIT @most) c)            AS running,
       (SELECT count(*) FROM (SELECT 1 FROM dead_letters ORDER BY died_at LIMIT @most) c)                                         AS dead_letter,` +
	estimatesSQL + workersSQL

// guessSQL is totalsSQL without the counting: as if each count had reached the limit at once.
const guessSQL = `
SELECT statement_timestamp() AS now, 0::bigint AS counted, 0::bigint AS waiting, 0::bigint AS blocked, 0::bigint AS scheduled,
       0::bigint AS queued, 0::bigint AS running, 0::bigint AS dead_letter,` +
	estimatesSQL + workersSQL

type countedTotals struct {
	Now                                                        time.Time
	Counted, Waiting                                           int64
	Blocked, Scheduled, Queued, Running, DeadLetter            int64
	QueuedAbout, ScheduledAbout, RunningAbout, DeadLetterAbout int64
	Active, Stale, Dead                                        int64
}

// Total is a count. Where counting stopped, Capped, it is the larger of that count and PostgreSQL's
// estimate.
type Total struct {
	N      int64
	Capped bool
}

// Totals are counts over all tenants.
type Totals struct {
	// Now is PostgreSQL's clock when they were counted.
	Now                                                      time.Time
	Blocked, Scheduled, Waiting, Queued, Running, DeadLetter Total
	// Active, Stale and Dead are workers.
	Active, Stale, Dead int64
}

// Totals counts jobs by state and workers by status, of all tenants, each state up to most and
// within half a second; beyond that it takes PostgreSQL's estimate. ErrOverloaded says that the
// time was over and that there is no estimate yet.
func (s *Reader) Totals(ctx context.Context, most int64) (Totals, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	var counted countedTotals
	err := s.InTx(ctx, func(tx pgx.Tx) error {
		// In the server, so that the connection survives the timeout.
		if _, err := tx.Exec(ctx, fmt.Sprintf(`SET LOCAL statement_timeout = %d`, totalsTime.Milliseconds())); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, totalsSQL, store.Args{"most": most})
		if err != nil {
			return err
		}
		counted, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[countedTotals])
		return err
	})
	if errors.Is(err, store.ErrOverloaded) && ctx.Err() == nil {
		guessed, failed := store.Query(ctx, s.Store, pgx.RowToStructByName[countedTotals], guessSQL, store.Args{})
		if failed != nil {
			return Totals{}, fmt.Errorf("jobs: totals: %w", store.NotApplied(failed))
		}
		if guessed[0].known() {
			return guessed[0].totals(0), nil
		}
	}
	if err != nil {
		return Totals{}, fmt.Errorf("jobs: totals: %w", store.NotApplied(err))
	}
	return counted.totals(most), nil
}

// known says whether all estimates exist.
func (c *countedTotals) known() bool {
	return min(c.QueuedAbout, c.ScheduledAbout, c.RunningAbout, c.DeadLetterAbout) >= 0
}

func (c *countedTotals) totals(most int64) Totals {
	total := func(n, about int64) Total {
		if n < most {
			return Total{N: n}
		}
		return Total{N: max(n, about), Capped: true}
	}
	made := Totals{
		Now: c.Now, Queued: total(c.Queued, c.QueuedAbout), Running: total(c.Running, c.RunningAbout),
		DeadLetter: total(c.DeadLetter, c.DeadLetterAbout), Active: c.Active, Stale: c.Stale, Dead: c.Dead,
		Blocked: Total{N: c.Blocked}, Scheduled: Total{N: c.Scheduled}, Waiting: Total{N: c.Waiting},
	}
	if c.Counted >= most { // all three were counted in one scan; the estimate is of the last two
		made.Blocked.Capped, made.Waiting.Capped = true, true
		made.Scheduled = Total{N: max(c.Scheduled, c.ScheduledAbout-c.Waiting), Capped: true}
	}
	return made
}
