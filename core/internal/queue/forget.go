package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	tryLockSQL = `SELECT pg_try_advisory_lock(@key)`
	unlockSQL  = `SELECT pg_advisory_unlock(@key)`
)

// partitionsSQL lists the days of a table: those attached, and those that an
// earlier run detached and did not live to drop. The day is the name's.
const partitionsSQL = `
SELECT c.relname AS name,
       to_date(right(c.relname, 8), 'YYYYMMDD')::timestamptz AS day,
       i.inhrelid IS NOT NULL AS attached,
       COALESCE(i.inhdetachpending, false) AS pending,
       -- below 0 where the table was never analyzed
       GREATEST(c.reltuples, 0)::bigint AS rows
FROM pg_class c
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
WHERE c.relkind = 'r' AND c.relname LIKE @pattern
  -- the same schema as the parent's: one schema is one cell
  AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = @parent::regclass)
ORDER BY c.relname`

// detachTime bounds one detach. It waits for readers that are older than it, for
// as long as this; meanwhile it stands in nobody's way. The next run finishes it.
const detachTime = 20 * time.Second

type partition struct {
	Name     string
	Day      time.Time
	Attached bool
	Pending  bool
	Rows     int64
}

// Dropped is a day that is gone: its table, whose day it was, and about how many rows
// it had, as PostgreSQL last estimated.
type Dropped struct {
	Table string
	Name  string
	Rows  int64
}

// Tables that are kept by day.
const (
	FinishedJobs = "finished_jobs"
	Attempts     = "attempts"
)

// DropPartitions removes the days that are past their retention and says what is
// gone. DETACH CONCURRENTLY, then DROP: neither ever holds the parent against
// inserts. One core at a time does it; the others find nothing to do.
func (s *Store) DropPartitions(ctx context.Context) ([]Dropped, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	key := pgx.StrictNamedArgs{"key": lockKey(lockRemoval, tenant.Platform)}
	var mine bool
	if err := conn.QueryRow(ctx, tryLockSQL, key).Scan(&mine); err != nil || !mine {
		return nil, classify(err)
	}
	// A session's lock: if it cannot be given back, the session has to go.
	defer func() {
		if _, err := conn.Exec(context.WithoutCancel(ctx), unlockSQL, key); err != nil {
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	var dropped []Dropped
	for table, keep := range map[string]time.Duration{FinishedJobs: s.retention.Finished, Attempts: s.retention.DeadLetters} {
		if keep <= 0 {
			continue
		}
		days, err := dropDays(ctx, conn, table, keep)
		dropped = append(dropped, days...)
		if err != nil {
			return dropped, fmt.Errorf("queue: drop partitions of %s: %w", table, err)
		}
	}
	return dropped, nil
}

// dropDays removes the days of one table that ended longer ago than keep.
func dropDays(ctx context.Context, conn *pgxpool.Conn, table string, keep time.Duration) ([]Dropped, error) {
	rows, err := conn.Query(ctx, partitionsSQL, pgx.StrictNamedArgs{"parent": table, "pattern": table + `\_________`})
	if err != nil {
		return nil, err
	}
	partitions, err := pgx.CollectRows(rows, pgx.RowToStructByName[partition])
	if err != nil {
		return nil, err
	}
	now, err := clock(ctx, conn)
	if err != nil {
		return nil, err
	}
	var dropped []Dropped
	for _, p := range partitions {
		if now.Before(p.Day.AddDate(0, 0, 1).Add(keep)) {
			continue
		}
		gone, err := dropDay(ctx, conn, table, p)
		if err != nil {
			return dropped, err
		}
		if gone {
			dropped = append(dropped, Dropped{Table: table, Name: p.Name, Rows: p.Rows})
		}
	}
	return dropped, nil
}

// dropDay detaches and drops one day; false where an old reader is still in the
// way, and the next run goes on.
func dropDay(ctx context.Context, conn *pgxpool.Conn, table string, p partition) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, detachTime+5*time.Second)
	defer cancel()
	// On the server's side, so that the connection outlives it.
	if _, err := conn.Exec(limited, fmt.Sprintf(`SET statement_timeout = %d`, detachTime.Milliseconds())); err != nil {
		return false, err
	}
	defer func() { _, _ = conn.Exec(context.WithoutCancel(ctx), `RESET statement_timeout`) }()
	// Names are made by makePartition, of letters, digits and underscores.
	var steps []string
	switch {
	case p.Attached && p.Pending:
		steps = append(steps, fmt.Sprintf(`ALTER TABLE %s DETACH PARTITION %s FINALIZE`, table, p.Name))
	case p.Attached:
		steps = append(steps, fmt.Sprintf(`ALTER TABLE %s DETACH PARTITION %s CONCURRENTLY`, table, p.Name))
	}
	for _, step := range append(steps, `DROP TABLE `+p.Name) {
		if _, err := conn.Exec(limited, step); err != nil {
			var refused *pgconn.PgError
			if errors.As(err, &refused) && (refused.Code == "57014" || refused.Code == "55P03") { // the timeout, a lock
				return false, nil
			}
			return false, err
		}
	}
	return true, nil
}

const forgetDeadSQL = `
DELETE FROM dead_letters
WHERE id = ANY(ARRAY(SELECT id FROM dead_letters WHERE died_at < statement_timestamp() - @keep::interval
                     ORDER BY died_at LIMIT @batch FOR UPDATE SKIP LOCKED))
RETURNING id`

// ForgetDead deletes at most batch dead letters, of any tenants, that are past
// their retention.
func (s *Store) ForgetDead(ctx context.Context, batch int) (int, error) {
	return s.forget(ctx, forgetDeadSQL, s.retention.DeadLetters, batch)
}

// Redrives that have ended are kept for as long as dead letters.
const forgetRedrivesSQL = `
DELETE FROM redrives
WHERE id = ANY(ARRAY(SELECT id FROM redrives WHERE ended_at < statement_timestamp() - @keep::interval
                     ORDER BY ended_at LIMIT @batch FOR UPDATE SKIP LOCKED))
RETURNING id`

const forgetAuditSQL = `
DELETE FROM audit_log
WHERE id = ANY(ARRAY(SELECT id FROM audit_log WHERE at < statement_timestamp() - @keep::interval
                     ORDER BY at LIMIT @batch FOR UPDATE SKIP LOCKED))
RETURNING id`

// ForgetRedrives deletes at most batch redrives, of any tenants, that ended before
// their retention.
func (s *Store) ForgetRedrives(ctx context.Context, batch int) (int, error) {
	return s.forget(ctx, forgetRedrivesSQL, s.retention.DeadLetters, batch)
}

// ForgetAudit deletes at most batch audit entries, of any tenants, that are past their
// retention.
func (s *Store) ForgetAudit(ctx context.Context, batch int) (int, error) {
	return s.forget(ctx, forgetAuditSQL, s.retention.Audit, batch)
}

func (s *Store) forget(ctx context.Context, sql string, keep time.Duration, batch int) (int, error) {
	if keep <= 0 {
		return 0, nil
	}
	rows, err := query(ctx, s, pgx.RowTo[uuid.UUID], sql, pgx.StrictNamedArgs{"keep": keep, "batch": batch})
	if err != nil {
		return 0, fmt.Errorf("queue: forget: %w", err)
	}
	return len(rows), nil
}

// How long an Idempotency-Key is remembered at least, and how long after its job
// has finished.
const (
	KeyAge      = 24 * time.Hour
	KeyAfterEnd = time.Hour
)

// forgetKeysSQL looks at the next keys by age, and forgets those whose jobs are
// neither live nor just finished. It gives where the next batch begins.
const forgetKeysSQL = `
WITH old AS MATERIALIZED (
  SELECT tenant_id, user_id, operation, key, job_ids, created_at
  FROM idempotency_keys
  WHERE created_at > @after AND created_at < statement_timestamp() - @age::interval
  ORDER BY created_at
  LIMIT @batch
), gone AS (
  DELETE FROM idempotency_keys k
  USING old
  WHERE (k.tenant_id, k.user_id, k.operation, k.key) = (old.tenant_id, old.user_id, old.operation, old.key)
    AND NOT EXISTS (SELECT FROM jobs j WHERE j.id = ANY(old.job_ids))
    AND NOT EXISTS (SELECT FROM finished_jobs f WHERE f.id = ANY(old.job_ids)
                    AND f.finished_at > statement_timestamp() - @after_end::interval)
  RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS forgotten, count(*) AS seen, max(created_at) AS last FROM old`

// Forgotten is what one batch came to.
type Forgotten struct {
	Forgotten, Seen int64
	// Last is the youngest key looked at; nil if there was none.
	Last *time.Time
}

// ForgetKeys looks at no more than batch old Idempotency-Keys, of any tenants,
// after a time, and forgets those that are of no use any more.
func (s *Store) ForgetKeys(ctx context.Context, after time.Time, batch int) (Forgotten, error) {
	rows, err := query(ctx, s, pgx.RowToStructByName[Forgotten], forgetKeysSQL, pgx.StrictNamedArgs{
		"after": after, "age": KeyAge, "after_end": KeyAfterEnd, "batch": batch,
	})
	if err != nil {
		return Forgotten{}, fmt.Errorf("queue: forget keys: %w", err)
	}
	return rows[0], nil
}
