package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// grains of rows.
const (
	part = iota
	minute
	hour
)

const (
	// settles is how old a minute is before its parts become one row. A part that is appended later is rolled up later.
	settles = 2 * time.Minute
	// minutesFor and hoursFor are how long there are rows of these grains.
	minutesFor = 48 * time.Hour
	hoursFor   = 90 * 24 * time.Hour
)

// rollUpSQL replaces the oldest rows of a grain by their sums. One statement: a read sees the rows or their sums, and two
// cores never take the same rows. Where a batch ends within a minute or an hour, that has more than one row.
//
// From @since on, because what was rolled up before leaves dead entries at the head of the index, which an old snapshot
// keeps there. Rows are never updated, so that a ctid stays.
const rollUpSQL = `
WITH gone AS (
  DELETE FROM job_stats WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM job_stats
    WHERE grain = @grain AND at >= @since AND at < statement_timestamp() - @age::interval
    ORDER BY at LIMIT @batch
    FOR UPDATE SKIP LOCKED))
  RETURNING tenant_id, queue, at, ` + countColumns + `
), rolled AS (
  INSERT INTO job_stats (tenant_id, queue, grain, at, ` + countColumns + `)
  SELECT tenant_id, queue, @grain + 1, date_bin(@length::interval, at, '1970-01-01 00:00:00+00'),
         sum(submitted), sum(started), sum(completed), sum(failed_attempts), sum(dead_letter), sum(cancelled), sum(waiting_ms), sum(running_ms)
  FROM gone
  GROUP BY 1, 2, 4
)
SELECT count(*), max(at) FROM gone`

// RolledUp is the result of one batch.
type RolledUp struct {
	Rows int
	// Last is when the last row began; nil for none.
	Last *time.Time
}

// RollUpMinutes makes rows of minutes from at most batch parts that begin at since or later.
func (s *Stats) RollUpMinutes(ctx context.Context, since time.Time, batch int) (RolledUp, error) {
	return s.rollUp(ctx, part, since, settles, time.Minute, batch)
}

// RollUpHours makes rows of hours from at most batch minutes that begin at since or later and are older than two days.
func (s *Stats) RollUpHours(ctx context.Context, since time.Time, batch int) (RolledUp, error) {
	return s.rollUp(ctx, minute, since, minutesFor, time.Hour, batch)
}

func (s *Stats) rollUp(ctx context.Context, grain int, since time.Time, age, length time.Duration, batch int) (RolledUp, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByPos[RolledUp], rollUpSQL, store.Args{
		"grain": grain, "since": since, "age": age, "length": length, "batch": batch,
	})
	if err != nil {
		return RolledUp{}, fmt.Errorf("stats: roll up: %w", err)
	}
	return rows[0], nil
}

const forgetSQL = `
DELETE FROM job_stats
WHERE ctid = ANY(ARRAY(SELECT ctid FROM job_stats
                       WHERE grain = @grain AND at < statement_timestamp() - @retention::interval
                       ORDER BY at LIMIT @batch FOR UPDATE SKIP LOCKED))
RETURNING 1`

// ForgetStats deletes at most batch rows of hours, of any tenants, that are past their retention.
func (s *Stats) ForgetStats(ctx context.Context, batch int) (int, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowTo[int], forgetSQL, store.Args{
		"grain": hour, "retention": hoursFor, "batch": batch,
	})
	if err != nil {
		return 0, fmt.Errorf("stats: forget: %w", err)
	}
	return len(rows), nil
}
