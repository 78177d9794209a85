package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Tables with a partition per day.
const (
	FinishedJobs = "finished_jobs"
	Attempts     = "attempts"
	Output       = "job_output"
)

// daysAhead is how many days of partitions exist in advance. A statement that finds no partition
// nevertheless creates them and runs again, see Store.retryWithPartitions.
const daysAhead = 7

// idSkew is how far a job's id may be ahead of PostgreSQL's clock. A gateway draws the id, a UUID
// v7, by its own clock; core refuses ids that are further ahead than half of this. So a job with
// the id can only have ended in the partitions from Since on.
const idSkew = 24 * time.Hour

// Since is the earliest time at which jobs with these ids can have ended. Statements that look up
// ids name it, so that PostgreSQL opens no partition of an earlier day.
func Since(ids ...uuid.UUID) time.Time {
	since := time.Time{}
	for i, id := range ids {
		if id.Version() != 7 {
			return time.Time{} // not drawn by a gateway; its time is unknown
		}
		if made := idTime(id).Add(-idSkew); i == 0 || made.Before(since) {
			since = made
		}
	}
	return since
}

// ValidID says whether a new job may have the id: a UUID v7 that is not so far ahead of core's
// clock that Since would exclude the day on which the job ends.
func ValidID(id uuid.UUID, now time.Time) bool {
	return id.Version() == 7 && idTime(id).Before(now.Add(idSkew/2))
}

// idTime is the time in a UUID v7: its first 48 bits, in milliseconds.
func idTime(id uuid.UUID) time.Time {
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms).UTC()
}

// partitionBounds reads the bounds of partition c. PostgreSQL prints and reads them by the
// session's settings. Null for a DEFAULT partition.
const partitionBounds = `
CROSS JOIN LATERAL regexp_match(
  replace(replace(pg_get_expr(c.relpartbound, c.oid), 'MINVALUE', '''-infinity'''), 'MAXVALUE', '''infinity'''),
  'FROM \(''([^'']+)''\) TO \(''([^'']+)''\)') AS bounds`

// missingDaysSQL gives the days, from yesterday on (a clock may step back), that no partition of
// the table contains. pg_inherits decides what is a partition, not the table's name.
const missingDaysSQL = `
WITH today AS (SELECT date_trunc('day', statement_timestamp()) AS start)
SELECT day
FROM today, generate_series(start - interval '1 day', start + @ahead * interval '1 day', interval '1 day') AS day
WHERE NOT EXISTS (
  SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid` + partitionBounds + `
  WHERE i.inhparent = @parent::regclass AND NOT i.inhdetachpending
    AND bounds[1]::timestamptz <= day AND bounds[2]::timestamptz >= day + interval '1 day')
ORDER BY day`

func missingDays(ctx context.Context, db store.Querier, table string) ([]time.Time, error) {
	rows, err := db.Query(ctx, missingDaysSQL, store.Args{"parent": table, "ahead": daysAhead})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[time.Time])
}

// MakePartitions creates the missing partitions from yesterday to seven days ahead. It only reads
// if none is missing. One caller at a time creates them, by an advisory lock. A failure with one
// table does not stop the others.
func (s *Forgetter) MakePartitions(ctx context.Context) error {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	var problems []error
	for _, table := range []string{FinishedJobs, Attempts, Output} {
		if err := s.makeDays(ctx, table); err != nil {
			problems = append(problems, fmt.Errorf("retention: partitions of %s: %w", table, err))
		}
	}
	return errors.Join(problems...)
}

func (s *Forgetter) makeDays(ctx context.Context, table string) error {
	return s.InTx(ctx, func(tx pgx.Tx) error {
		if days, err := missingDays(ctx, tx, table); err != nil || len(days) == 0 {
			return err
		}
		key := store.Args{"key": s.LockKey(store.LockPartitions, tenant.Platform)}
		if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, key); err != nil {
			return err
		}
		// Under the lock: another core may have created them since.
		days, err := missingDays(ctx, tx, table)
		if err != nil {
			return err
		}
		for _, day := range days {
			if err := makePartition(ctx, tx, table, day.UTC()); err != nil {
				return err
			}
		}
		return nil
	})
}

// uncoveredSQL gives those of some days that no partition of the table has.
const uncoveredSQL = `
SELECT day FROM unnest(@days::timestamptz[]) AS day
WHERE NOT EXISTS (
  SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid` + partitionBounds + `
  WHERE i.inhparent = @parent::regclass AND NOT i.inhdetachpending
    AND bounds[1]::timestamptz < day + interval '1 day' AND bounds[2]::timestamptz > day)
ORDER BY day`

// MakeDays creates the partitions of days of one table that it lacks: rows of another cell are to be stored.
func (s *Forgetter) MakeDays(ctx context.Context, table string, days []time.Time) error {
	err := s.InTx(ctx, func(tx pgx.Tx) error {
		key := store.Args{"key": s.LockKey(store.LockPartitions, tenant.Platform)}
		if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, key); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, uncoveredSQL, store.Args{"parent": table, "days": days})
		if err != nil {
			return err
		}
		missing, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
		if err != nil {
			return err
		}
		for _, day := range missing {
			if err := makePartition(ctx, tx, table, day.UTC()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("retention: partitions of %s: %w", table, err)
	}
	return nil
}

const daysSQL = `
SELECT day
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid` + partitionBounds + `
CROSS JOIN LATERAL generate_series(bounds[1]::timestamptz, bounds[2]::timestamptz - interval '1 second', interval '1 day') AS day
WHERE i.inhparent = @parent::regclass AND NOT i.inhdetachpending AND bounds[1] <> '-infinity' AND bounds[2] <> 'infinity'
ORDER BY day`

// Days gives the days that the partitions of a table have.
func (s *Forgetter) Days(ctx context.Context, table string) ([]time.Time, error) {
	days, err := store.Query(ctx, s.Store, pgx.RowTo[time.Time], daysSQL, store.Args{"parent": table})
	if err != nil {
		return nil, fmt.Errorf("retention: days of %s: %w", table, store.NotApplied(err))
	}
	return days, nil
}

// freeNameSQL gives a name for a new partition that no other table has.
const freeNameSQL = `
SELECT name
FROM generate_series(1, 100) AS n,
     LATERAL (SELECT CASE n WHEN 1 THEN @name::text ELSE @name || '_' || n END AS name) AS candidate
WHERE to_regclass(name) IS NULL
ORDER BY n
LIMIT 1`

// makePartition creates one day's table and attaches it. LIKE and ATTACH instead of CREATE …
// PARTITION OF, which would lock the parent against all inserts.
func makePartition(ctx context.Context, tx pgx.Tx, table string, day time.Time) error {
	var name string
	args := store.Args{"name": table + "_" + day.Format("20060102")}
	if err := tx.QueryRow(ctx, freeNameSQL, args).Scan(&name); err != nil {
		return err
	}
	from, to := day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly)
	// Names and dates are generated, of letters, digits and dashes: DDL takes no parameters.
	for _, statement := range []string{
		fmt.Sprintf(`CREATE TABLE %s (LIKE %s INCLUDING ALL)`, name, table),
		fmt.Sprintf(`ALTER TABLE %s ATTACH PARTITION %s FOR VALUES FROM ('%s 00:00:00+00') TO ('%s 00:00:00+00')`, table, name, from, to),
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
