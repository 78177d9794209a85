package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// droppedMark is the comment on a partition before its detach: a core that ends between detach and
// drop leaves a table that is no longer in pg_inherits.
const droppedMark = "forgequeue: past its retention, detached to be dropped"

// dueDaysSQL lists the partitions of a table that ended longer ago than @retention, and tables that an
// earlier run detached and did not drop, in this cell's schema. The bounds give the day, not the table's name. A pending
// detach comes first, because PostgreSQL allows one per table at a time.
const dueDaysSQL = `
SELECT name, attached, pending, rows FROM (
  SELECT c.oid::regclass::text AS name, true AS attached, i.inhdetachpending AS pending, bounds[1]::timestamptz AS day,
         -- below 0 where the table was never analyzed
         GREATEST(c.reltuples, 0)::bigint AS rows
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid` + partitionBounds + `
  WHERE i.inhparent = @parent::regclass
    AND (i.inhdetachpending OR bounds[2]::timestamptz <= statement_timestamp() - @retention::interval
         -- not before the ledger has counted it
         AND bounds[2]::timestamptz <= (SELECT (max(closed.day) + 1)::timestamp AT TIME ZONE 'UTC' FROM ledger_days AS closed))
  UNION ALL
  SELECT c.oid::regclass::text, false, false, NULL, GREATEST(c.reltuples, 0)::bigint
  FROM pg_description d JOIN pg_class c ON c.oid = d.objoid
  WHERE d.classoid = 'pg_class'::regclass AND d.objsubid = 0 AND d.description = @mark
    AND c.relkind = 'r' AND NOT c.relispartition AND c.relnamespace = ` + store.OwnSchemaSQL + `
) AS due
ORDER BY NOT pending, attached, day`

// detachTime bounds one detach. It waits for older readers, without blocking others; the next run
// finishes it.
const detachTime = 20 * time.Second

type partition struct {
	Name     string
	Attached bool
	Pending  bool
	Rows     int64
}

// Dropped is a dropped partition: its table, its day, and PostgreSQL's last estimate of its rows.
type Dropped struct {
	Table string
	Name  string
	Rows  int64
}

// detachLock bounds how long a detach that locks the parent waits for older readers: inserts wait
// behind it meanwhile.
const detachLock = time.Second

// DropPartitions drops the days that are past their retention and gives them. DETACH CONCURRENTLY,
// then DROP: neither locks the parent against inserts. Citus has no concurrent detach: there inserts
// wait, for detachLock at most. One core at a time does it; the others do nothing. A failure with one
// table does not stop the others.
func (s *Forgetter) DropPartitions(ctx context.Context) ([]Dropped, error) {
	var dropped []Dropped
	_, err := s.WithSessionLock(store.WithClass(ctx, store.ClassLists), store.LockRemoval, tenant.Platform, func(conn *store.Conn) error {
		var problems []error
		for table, retention := range map[string]time.Duration{FinishedJobs: s.periods.Finished, Attempts: s.periods.DeadLetters, Output: s.periods.DeadLetters} {
			if retention <= 0 {
				continue
			}
			days, err := s.dropDays(ctx, conn.Conn.Conn(), table, retention)
			dropped = append(dropped, days...)
			if err != nil {
				problems = append(problems, fmt.Errorf("retention: drop partitions of %s: %w", table, err))
			}
		}
		return errors.Join(problems...)
	})
	return dropped, err
}

// dropDays drops the days of one table that ended longer ago than retention. It stops at the first
// failure.
func (s *Forgetter) dropDays(ctx context.Context, conn *pgx.Conn, table string, retention time.Duration) ([]Dropped, error) {
	rows, err := conn.Query(ctx, dueDaysSQL, store.Args{"parent": table, "retention": retention, "mark": droppedMark + " (" + table + ")"})
	if err != nil {
		return nil, err
	}
	due, err := pgx.CollectRows(rows, pgx.RowToStructByName[partition])
	if err != nil {
		return nil, err
	}
	var dropped []Dropped
	for _, p := range due {
		if err := s.dropDay(ctx, conn, table, p); err != nil {
			return dropped, fmt.Errorf("%s: %w", p.Name, err)
		}
		dropped = append(dropped, Dropped{Table: table, Name: p.Name, Rows: p.Rows})
	}
	return dropped, nil
}

// dropDay detaches and drops one day. An old reader makes it fail, and the next run continues.
func (s *Forgetter) dropDay(ctx context.Context, conn *pgx.Conn, table string, p partition) error {
	limited, cancel := context.WithTimeout(ctx, detachTime+5*time.Second)
	defer cancel()
	// In the server, so that the connection survives the timeout.
	limits, how := fmt.Sprintf(`SET statement_timeout = %d`, detachTime.Milliseconds()), "CONCURRENTLY"
	if s.Distributed() {
		limits, how = fmt.Sprintf(`%s; SET lock_timeout = %d`, limits, detachLock.Milliseconds()), ""
	}
	if _, err := conn.Exec(limited, limits); err != nil {
		return err
	}
	defer func() { _, _ = conn.Exec(context.WithoutCancel(ctx), `RESET statement_timeout; RESET lock_timeout`) }()
	// The names are PostgreSQL's, quoted where needed.
	var steps []string
	if p.Attached {
		steps = append(steps, fmt.Sprintf(`COMMENT ON TABLE %s IS '%s (%s)'`, p.Name, droppedMark, table))
	}
	switch {
	case p.Attached && p.Pending:
		steps = append(steps, fmt.Sprintf(`ALTER TABLE %s DETACH PARTITION %s FINALIZE`, table, p.Name))
	case p.Attached:
		steps = append(steps, fmt.Sprintf(`ALTER TABLE %s DETACH PARTITION %s %s`, table, p.Name, how))
	}
	for _, step := range append(steps, `DROP TABLE `+p.Name) {
		if _, err := conn.Exec(limited, step); err != nil {
			refused, ok := errors.AsType[*pgconn.PgError](err)
			if ok && (refused.Code == "57014" || refused.Code == "55P03") { // the timeout, a lock
				return fmt.Errorf("an older transaction still reads it: %w", err)
			}
			return err
		}
	}
	return nil
}
