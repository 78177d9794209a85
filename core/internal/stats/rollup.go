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

// table is one that is rolled up, and forgotten.
type table struct {
	// columns are the keys and counts of a row; keys and sums are those of many.
	name, keys, columns, sums string
}

func jobStats() table {
	return table{"job_stats", "tenant_id, queue", countColumns, `sum(submitted), sum(started), sum(completed), sum(failed_attempts), sum(dead_letter), sum(cancelled),
         sum(waiting_ms), sum(running_ms)`}
}

func limitStats() table {
	return table{"limit_stats", "tenant_id, limit_name, name", "used, allowed, refused", usedSQL + ", max(allowed), sum(refused)"}
}

// rollUpSQL replaces the oldest rows of a grain by their sums. One statement: a read sees the rows or their sums, and two
// cores never take the same rows. Where a batch ends within a minute or an hour, that has more than one row.
//
// From @since on, because what was rolled up before leaves dead entries at the head of the index, which an old snapshot
// keeps there. Rows are never updated, so that a ctid stays.
func (t *table) rollUpSQL() string {
	return `
WITH gone AS (
  DELETE FROM ` + t.name + ` WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM ` + t.name + `
    WHERE grain = @grain AND at >= @since AND at < statement_timestamp() - @age::interval
      AND tenant_id <> ALL(` + store.MovingSQL + `)
    ORDER BY at LIMIT @batch
    FOR UPDATE SKIP LOCKED))
  RETURNING ` + t.keys + `, at, ` + t.columns + `
), rolled AS (
  INSERT INTO ` + t.name + ` (` + t.keys + `, grain, at, ` + t.columns + `)
  SELECT ` + t.keys + `, @grain + 1, date_bin(@length::interval, at, '1970-01-01 00:00:00+00'),
         ` + t.sums + `
  FROM gone
  GROUP BY ` + t.keys + `, date_bin(@length::interval, at, '1970-01-01 00:00:00+00')
)
SELECT count(*), max(at) FROM gone`
}

// RolledUp is the result of one batch.
type RolledUp struct {
	Rows int
	// Last is when the last row began; nil for none.
	Last *time.Time
}

// RollUpMinutes makes rows of minutes from at most batch parts that begin at since or later.
func (s *Stats) RollUpMinutes(ctx context.Context, since time.Time, batch int) (RolledUp, error) {
	return s.rollUp(ctx, jobStats(), part, since, batch)
}

// RollUpHours makes rows of hours from at most batch minutes that begin at since or later and are older than two days.
func (s *Stats) RollUpHours(ctx context.Context, since time.Time, batch int) (RolledUp, error) {
	return s.rollUp(ctx, jobStats(), minute, since, batch)
}

// RollUpLimitMinutes does the same for the stats of limits.
func (s *Stats) RollUpLimitMinutes(ctx context.Context, since time.Time, batch int) (RolledUp, error) {
	return s.rollUp(ctx, limitStats(), part, since, batch)
}

// RollUpLimitHours does the same for the stats of limits.
func (s *Stats) RollUpLimitHours(ctx context.Context, since time.Time, batch int) (RolledUp, error) {
	return s.rollUp(ctx, limitStats(), minute, since, batch)
}

func (s *Stats) rollUp(ctx context.Context, of table, grain int, since time.Time, batch int) (RolledUp, error) {
	age, length := settles, time.Minute
	if grain == minute {
		age, length = minutesFor, time.Hour
	}
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByPos[RolledUp], of.rollUpSQL(), store.Args{
		"grain": grain, "since": since, "age": age, "length": length, "batch": batch,
	})
	if err != nil {
		return RolledUp{}, fmt.Errorf("stats: roll up: %w", err)
	}
	return rows[0], nil
}

func (t *table) forgetSQL() string {
	return `
DELETE FROM ` + t.name + `
WHERE ctid = ANY(ARRAY(SELECT ctid FROM ` + t.name + `
                       WHERE grain = @grain AND at < statement_timestamp() - @retention::interval
                         AND tenant_id <> ALL(` + store.MovingSQL + `)
                       ORDER BY at LIMIT @batch FOR UPDATE SKIP LOCKED))
RETURNING 1`
}

// ForgetStats deletes at most batch rows of hours, of any tenants, that are past their retention.
func (s *Stats) ForgetStats(ctx context.Context, batch int) (int, error) {
	return s.forget(ctx, jobStats(), batch)
}

// ForgetLimitStats does the same for the stats of limits.
func (s *Stats) ForgetLimitStats(ctx context.Context, batch int) (int, error) {
	return s.forget(ctx, limitStats(), batch)
}

func (s *Stats) forget(ctx context.Context, of table, batch int) (int, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowTo[int], of.forgetSQL(), store.Args{
		"grain": hour, "retention": hoursFor, "batch": batch,
	})
	if err != nil {
		return 0, fmt.Errorf("stats: forget: %w", err)
	}
	return len(rows), nil
}
