package invariants

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5" //nolint:depguard // looks behind the service's back, on purpose
)

// Row is a job where it now stands, in whichever table.
type Row struct {
	ID, Tenant, State, Table string
	Mark, Payload            string
	Attempt, MaxAttempts     int
	Epoch                    int64
	Redrives                 int
	Reason                   string
	LeaseEnds                time.Time
}

// terminal says whether the row is an end.
func (r Row) terminal() bool { return r.Table != "jobs" }

// Attempt is a row of an attempt that did not succeed.
type Attempt struct {
	Job     string
	Epoch   int64
	Attempt int
	Kind    string
}

// Resource is a count that has to be back at its baseline once quiet.
type Resource struct {
	Name          string
	Before, After float64
	// Slack is how much above the baseline is still no leak.
	Slack float64
}

// Database is what is on record once quiet.
type Database struct {
	Now      time.Time
	Rows     []Row
	Attempts []Attempt
	Edges    []Edge
	// IdleInTransaction are sessions that hold a transaction open and do nothing.
	IdleInTransaction int
	// Discarded counts jobs that were thrown away, by tenant: dead letters, and ended jobs that were deleted.
	Discarded map[string]int
	// Overdue are running jobs that were seen, at any time of the run, longer past
	// their lease than two reap periods.
	Overdue []string
	// Buckets are the limits that the run was under.
	Buckets []Bucket
	// Contests are times in which tenants shared workers.
	Contests []Contest
	// OverCap are looks at which more jobs were active or running than a cap allows;
	// Drift is what `core verify` found once quiet.
	OverCap []string
	Drift   []string
	// Resources and RedisWithoutTTL belong to I14; Counters, where not nil, are the
	// services' own sums by name (submitted, completed, dead_lettered).
	Resources       []Resource
	RedisWithoutTTL []string
	Counters        map[string]float64
}

const rowsSQL = `
SELECT id::text, tenant_id::text, state, 'jobs', payload::text, attempt, max_attempts, epoch, redrives, '', lease_expires_at FROM jobs
UNION ALL
SELECT id::text, tenant_id::text, state, 'finished_jobs', payload::text, attempt, max_attempts, epoch, redrives, '', NULL FROM finished_jobs
UNION ALL
SELECT id::text, tenant_id::text, 'dead_letter', 'dead_letters', payload::text, attempt, max_attempts, epoch, redrives, reason, NULL
FROM dead_letters`

// Read takes one consistent picture of a database.
func Read(ctx context.Context, url string) (Database, error) {
	db := Database{}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return db, err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT statement_timestamp()`).Scan(&db.Now); err != nil {
			return err
		}
		if err := db.readRows(ctx, tx); err != nil {
			return err
		}
		if err := db.readDiscarded(ctx, tx); err != nil {
			return err
		}
		if err := db.readEdges(ctx, tx); err != nil {
			return err
		}
		return db.readAttempts(ctx, tx)
	})
	if err != nil {
		return db, fmt.Errorf("invariants: read: %w", err)
	}
	err = conn.QueryRow(ctx, idleSQL).Scan(&db.IdleInTransaction)
	return db, err
}

// idleSQL counts sessions that are idle in a transaction. A database may be shared by schemas of several tests, as on Citus:
// then those count that hold a lock of a table of this schema.
const idleSQL = `
SELECT count(*) FROM pg_stat_activity AS a
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND state LIKE 'idle in transaction%' AND state_change < clock_timestamp() - interval '1 second'
  AND (current_schema() = 'public' OR EXISTS (
    SELECT FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation WHERE l.pid = a.pid AND c.relnamespace = current_schema()::regnamespace))`

func (db *Database) readRows(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, rowsSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r Row
		var payload string
		var ends *time.Time
		if err := rows.Scan(&r.ID, &r.Tenant, &r.State, &r.Table, &payload, &r.Attempt, &r.MaxAttempts, &r.Epoch, &r.Redrives,
			&r.Reason, &ends); err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(payload))
		r.Payload, r.Mark = hex.EncodeToString(sum[:12]), markIn([]byte(payload))
		if ends != nil {
			r.LeaseEnds = *ends
		}
		db.Rows = append(db.Rows, r)
	}
	return rows.Err()
}

const edgesSQL = `
WITH all_jobs AS (
  SELECT id, state, started_at, NULL::timestamptz AS ended_at, redrives FROM jobs
  UNION ALL
  SELECT id, state, started_at, finished_at, redrives FROM finished_jobs
  UNION ALL
  SELECT id, 'dead_letter', started_at, died_at, redrives FROM dead_letters)
SELECT d.parent_id::text, d.child_id::text, d.on_failed, d.resolved_at, COALESCE(p.state, ''), p.ended_at, c.state, c.started_at,
       c.redrives > 0 OR COALESCE(p.redrives > 0, false)
FROM dependencies AS d
JOIN all_jobs AS c ON c.id = d.child_id
LEFT JOIN all_jobs AS p ON p.id = d.parent_id`

func (db *Database) readEdges(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, edgesSQL)
	if err != nil {
		return err
	}
	db.Edges, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Edge])
	return err
}

// What was discarded by filter is in the row of the discard, what was by id in the
// audit log.
const discardedSQL = `
SELECT tenant_id::text, sum(n)::integer FROM (
  SELECT tenant_id, done AS n FROM redrives WHERE action = 'discard'
  UNION ALL
  SELECT tenant_id, COALESCE((detail->>'count')::bigint, 1) FROM audit_log WHERE action IN ('dead_letter.discard', 'job.delete')
) AS discards
GROUP BY tenant_id`

func (db *Database) readDiscarded(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, discardedSQL)
	if err != nil {
		return err
	}
	db.Discarded = map[string]int{}
	var tenant string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&tenant, &n}, func() error {
		db.Discarded[tenant] = n
		return nil
	})
	return err
}

func (db *Database) readAttempts(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT job_id::text, epoch, attempt, kind FROM attempts ORDER BY job_id, epoch`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var a Attempt
		if err := rows.Scan(&a.Job, &a.Epoch, &a.Attempt, &a.Kind); err != nil {
			return err
		}
		db.Attempts = append(db.Attempts, a)
	}
	return rows.Err()
}

// Count counts rows by state.
func (db *Database) Count() map[string]int {
	states := map[string]int{}
	for _, r := range db.Rows {
		states[r.State]++
	}
	return states
}

// Open counts jobs that have not ended.
func (db *Database) Open() int {
	n := 0
	for _, r := range db.Rows {
		if !r.terminal() {
			n++
		}
	}
	return n
}

func (db *Database) byID() map[string]Row {
	rows := make(map[string]Row, len(db.Rows))
	for _, r := range db.Rows {
		rows[r.ID] = r
	}
	return rows
}
