package caps

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// How counts are stored.
//
//	usage_log      seq 7: count 40, bound 900      the newest row of a key …
//	usage_credits  −1 (xid 880) −1 (901) −1 (905)  … and the credits from its bound on
//	true count     40 − 2 = 38                     880 is in the 40 already
//
// A count is increased under its tenant's lock, so rows of the log are serialised. A count is
// decreased (by a finish) without a lock: a credit is appended in the statement that removes the
// job. The next row folds the credits of transactions older than every running one: none of those
// can still appear. Folding by an id from a sequence instead would lose credits, because such ids
// commit out of order.
//
// A transaction that has written and stays open, in any database of the server, holds back the
// bound. Then the next row also has a mark: the sum of the credits from its bound on, and the
// snapshot in which they were visible. Only credits that were not visible in the snapshot are read:
// those of transactions that were running at that moment, which it names, and of later ones.
//
//	seq 8: count 38, bound 900, young −3, seen 900:990:900,987
//	true count     38 − 3, and credits of 900, of 987 and from 990 on
//
// Where Citus distributes the schema, ids of transactions have no order: some statements get the
// coordinator's and others a worker's, and a schema is moved between workers. Bounds stay 0 then, and
// there are no marks: all credits are read, and a row that folds credits deletes them in the same
// transaction, under the lock. On a server of its own that is slower (decision 49): what was deleted is read over
// again until vacuum may remove it.

const (
	// markFrom is how many credits that cannot be folded are worth a mark; with fewer the read is
	// cheaper without.
	markFrom = "100"
	// maxFold bounds the credits that one row folds after a mark.
	maxFold = "5000"
)

// seenSQL is the current snapshot. A transaction does not see itself as running, and may still
// append credits.
const seenSQL = `(
  SELECT format('%s:%s:%s', pg_snapshot_xmin(now), pg_snapshot_xmax(now), (
    SELECT string_agg(open.xid::text, ',' ORDER BY open.xid)
    FROM (SELECT pg_snapshot_xip(now)
          UNION SELECT pg_current_xact_id_if_assigned() WHERE pg_current_xact_id_if_assigned() < pg_snapshot_xmax(now)) AS open(xid)))
  FROM pg_current_snapshot() AS now)`

// freshSQL sums the credits of k from the mark of the newest row on, or all from its bound on.
const freshSQL = `
  SELECT sum(c.n)                                                       AS every,
         sum(c.n) FILTER (WHERE c.xid = pg_current_xact_id_if_assigned()) AS own,
         sum(c.n) FILTER (WHERE c.xid < ` + foldBoundSQL + `)           AS old,
         count(*) FILTER (WHERE c.xid >= ` + foldBoundSQL + `)          AS many,
         count(*)                                                       AS any
  FROM usage_credits c
  WHERE c.tenant_id = k.tenant_id AND c.counter = k.counter AND c.name = k.name
    AND c.xid >= COALESCE(pg_snapshot_xmax(log.seen), log.bound)`

// lateSQL sums the credits of transactions that were running at the mark: one look-up for each, because a
// list of them would be no index condition.
const lateSQL = `
  SELECT sum(one.n)                                                       AS every,
         sum(one.n) FILTER (WHERE open.xid = pg_current_xact_id_if_assigned()) AS own
  FROM pg_snapshot_xip(log.seen) AS open(xid) CROSS JOIN LATERAL (
    SELECT sum(c.n) AS n
    FROM usage_credits c
    WHERE c.tenant_id = k.tenant_id AND c.counter = k.counter AND c.name = k.name AND c.xid = open.xid) AS one`

// foldableSQL is what can now be folded of all that the mark, or freshSQL, has summed up.
const foldableSQL = `
  SELECT sum(o.n) AS n, count(*) AS any,
         CASE WHEN count(*) < ` + maxFold + ` THEN ` + foldBoundSQL + ` ELSE (max(o.xid)::text::bigint + 1)::text::xid8 END AS until
  FROM (SELECT c.n, c.xid
        FROM usage_credits c
        WHERE c.tenant_id = k.tenant_id AND c.counter = k.counter AND c.name = k.name
          AND c.xid >= log.bound AND c.xid < ` + foldBoundSQL + ` AND log.seen IS NOT NULL
        ORDER BY c.xid
        FETCH FIRST ` + maxFold + ` ROWS WITH TIES) AS o`

// readUsageSQL reads counts in one snapshot: log, credits and the values of the next row must be
// consistent.
const readUsageSQL = `
SELECT k.place::integer - 1                                       AS place,
       COALESCE(log.seq, 0)                                       AS seq,
       sums.used, next.count, next.bound::text AS bound,
       -- without this transaction's own credits, which are in no row: it may append more
       (sums.used - sums.own - next.count)::bigint                AS young,
       CASE WHEN next.marked THEN ` + seenSQL + ` END             AS seen,
       GREATEST(fresh.any, moved.any) > ` + markFrom + `          AS crowded,
       ` + foldBoundSQL + ` = '0'::xid8                           AS deletes,
       stored.tenant_id IS NOT NULL                               AS stored,
       COALESCE(stored.settled, false)                            AS settled,
       statement_timestamp()                                      AS at,
       -- for Tally.mayFill; a settled count needs none
       CASE WHEN stored.settled THEN 0 ELSE pg_relation_size('jobs') END AS jobs_size
FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[])
     WITH ORDINALITY AS k(tenant_id, counter, name, place)
LEFT JOIN LATERAL (
  SELECT l.seq, l.count, l.bound, l.young, l.seen
  FROM usage_log l
  WHERE l.tenant_id = k.tenant_id AND l.counter = k.counter AND l.name = k.name
  ORDER BY l.seq DESC
  LIMIT 1
) AS log ON true
CROSS JOIN LATERAL (` + freshSQL + `) AS fresh
CROSS JOIN LATERAL (` + lateSQL + `) AS late
CROSS JOIN LATERAL (` + foldableSQL + `) AS moved
CROSS JOIN LATERAL (
  SELECT (COALESCE(log.count, 0) + COALESCE(log.young, 0) + COALESCE(fresh.every, 0) + COALESCE(late.every, 0))::bigint AS used,
         (COALESCE(fresh.own, 0) + COALESCE(late.own, 0))::bigint AS own
) AS sums
CROSS JOIN LATERAL (
  SELECT (COALESCE(log.count, 0) + COALESCE(CASE WHEN log.seen IS NULL THEN fresh.old ELSE moved.n END, 0))::bigint AS count,
         moved.until AS bound,
         ` + foldBoundSQL + ` <> '0'::xid8 AND (fresh.many > ` + markFrom + ` OR moved.until < pg_snapshot_xmax(log.seen)) AS marked
) AS next
LEFT JOIN usage_counts stored ON stored.tenant_id = k.tenant_id AND stored.counter = k.counter AND stored.name = k.name`

type usageRow struct {
	Place int32
	Seq   int64
	Used  int64
	logRow
	Crowded bool
	Deletes bool
	Stored  bool
	Settled bool
	At      time.Time
	// JobsSize is the size of the jobs table in bytes.
	JobsSize int64
}

// logRow is the content of a row of the log.
type logRow struct {
	Count, Young int64
	Bound        string
	Seen         *string
}

// countArgs are the arguments @tenants, @counters and @names of a statement.
func countArgs(keys []CountKey) store.Args {
	tenants, counters, names := make([]uuid.UUID, len(keys)), make([]int16, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		tenants[i], counters[i], names[i] = key.Tenant, int16(key.Counter), key.Name
	}
	return store.Args{"tenants": tenants, "counters": counters, "names": names}
}

// collectUsage makes a tally of the rows of readUsageSQL.
func collectUsage(keys []CountKey, rows pgx.Rows) (*Tally, error) {
	read := &Tally{Counts: make(map[CountKey]*count, len(keys))}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[usageRow])
	if err != nil {
		return nil, err
	}
	for _, row := range found {
		read.Counts[keys[row.Place]] = &count{
			seq: row.Seq, used: row.Used, next: row.logRow, crowded: row.Crowded, deletes: row.Deletes, stored: row.Stored, settled: row.Settled,
		}
		read.jobsSize, read.at = max(read.jobsSize, row.JobsSize), row.At
	}
	return read, nil
}

// QueueRead reads counts as part of a batch: the tally has them once that has run.
func QueueRead(batch *pgx.Batch, tally *Tally, keys []CountKey) {
	batch.Queue(readUsageSQL, countArgs(keys)).Query(func(rows pgx.Rows) error {
		read, err := collectUsage(keys, rows)
		if err == nil {
			*tally = *read
		}
		return err
	})
}

// ReadUsage reads counts without a lock: they are exact only at this moment.
func ReadUsage(ctx context.Context, db store.Querier, keys []CountKey) (*Tally, error) {
	rows, err := db.Query(ctx, readUsageSQL, countArgs(keys))
	if err != nil {
		return nil, err
	}
	return collectUsage(keys, rows)
}

// appendUsageSQL appends one row to the log of each count.
const appendUsageSQL = `
INSERT INTO usage_log (tenant_id, counter, name, seq, count, bound, young, seen, written_at)
SELECT u.tenant_id, u.counter, u.name, u.seq, u.count, u.bound::xid8, u.young, u.seen::pg_snapshot, statement_timestamp()
FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[], @seqs::bigint[], @counts::bigint[],
            @bounds::text[], @youngs::bigint[], @seens::text[])
     AS u(tenant_id, counter, name, seq, count, bound, young, seen)`

// appendDeletingSQL appends rows that fold credits by deleting them, some thousands at a time.
const appendDeletingSQL = `
WITH gone AS (
  DELETE FROM usage_credits WHERE ctid = ANY(ARRAY(
    SELECT old.ctid
    FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[]) AS k(tenant_id, counter, name)
    CROSS JOIN LATERAL (
      SELECT c.ctid FROM usage_credits c
      WHERE c.tenant_id = k.tenant_id AND c.counter = k.counter AND c.name = k.name
      LIMIT ` + maxFold + `) AS old))
  RETURNING tenant_id, counter, name, n
)
INSERT INTO usage_log (tenant_id, counter, name, seq, count, bound, written_at)
SELECT u.tenant_id, u.counter, u.name, u.seq, u.count + COALESCE(folded.n, 0), '0'::xid8, statement_timestamp()
FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[], @seqs::bigint[], @counts::bigint[])
     AS u(tenant_id, counter, name, seq, count)
LEFT JOIN (SELECT tenant_id, counter, name, sum(n)::bigint AS n FROM gone GROUP BY 1, 2, 3) AS folded
  ON folded.tenant_id = u.tenant_id AND folded.counter = u.counter AND folded.name = u.name`

// Append writes the jobs taken, and folds or sums up credits where there are many. It belongs to
// the transaction that stores the jobs.
func (t *Tally) Append(batch *pgx.Batch) {
	var keys, deleting []CountKey
	for key, counted := range t.Counts {
		switch {
		case counted.crowded && counted.deletes:
			deleting = append(deleting, key)
		case counted.taken != 0 || counted.crowded:
			keys = append(keys, key)
		}
	}
	t.append(batch, appendUsageSQL, keys)
	t.append(batch, appendDeletingSQL, deleting)
}

func (t *Tally) append(batch *pgx.Batch, sql string, keys []CountKey) {
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, CountKey.compare)
	seqs, counts, youngs := make([]int64, len(keys)), make([]int64, len(keys)), make([]int64, len(keys))
	bounds, seens := make([]string, len(keys)), make([]*string, len(keys))
	for i, key := range keys {
		counted := t.Counts[key]
		next := counted.next
		seqs[i], counts[i], bounds[i] = counted.seq+1, next.Count+counted.taken, next.Bound
		if next.Seen != nil {
			youngs[i], seens[i] = next.Young, next.Seen
		}
	}
	args := countArgs(keys)
	if args["seqs"], args["counts"] = seqs, counts; sql == appendUsageSQL {
		args["bounds"], args["youngs"], args["seens"] = bounds, youngs, seens
	}
	batch.Queue(sql, args)
}

// LeaveCountsSQL is the part of a statement that removes jobs from their counts when it ends them;
// ended is what the statement deleted.
const LeaveCountsSQL = `credited AS (
  INSERT INTO usage_credits (tenant_id, counter, name, n, xid)
  SELECT c.owner, c.counter, c.name, -count(*), pg_current_xact_id()
  FROM ended CROSS JOIN LATERAL ` + countersSQL + `
  WHERE ended.counted <> 0 AND ended.counted & c.counter <> 0
  GROUP BY c.owner, c.counter, c.name
)`

// appendLeavingSQL does the same for jobs that were locked before.
const appendLeavingSQL = `
INSERT INTO usage_credits (tenant_id, counter, name, n, xid)
SELECT c.tenant_id, c.counter, c.name, c.n, pg_current_xact_id()
FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[], @ns::bigint[]) AS c(tenant_id, counter, name, n)`

// Credits collects decreases of counts.
type Credits map[CountKey]int64

// Of adds the credits of a job: for the counts among its bits that are in leaving.
func (c Credits) Of(owner tenant.ID, user *string, queue, jobType string, counted, leaving Counter) {
	for bit := ActiveTenant; bit <= lastCounter; bit <<= 1 {
		if counted&leaving&bit == 0 {
			continue
		}
		key := CountKey{Tenant: owner, Counter: bit}
		switch bit {
		case ActiveUser, RunningUser:
			if user != nil { // set if the bit is
				key.Name = *user
			}
		case ActiveQueue, RunningQueue:
			key.Name = queue
		case RunningType:
			key.Name = TypeName(queue, jobType)
		case RunningAll:
			key.Tenant = tenant.Platform
		default: // the tenant's, without a name
		}
		c[key]--
	}
}

// Append writes the credits.
func (c Credits) Append(batch *pgx.Batch) {
	if len(c) == 0 {
		return
	}
	keys := make([]CountKey, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, CountKey.compare)
	ns := make([]int64, len(keys))
	for i, key := range keys {
		ns[i] = c[key]
	}
	args := countArgs(keys)
	args["ns"] = ns
	batch.Queue(appendLeavingSQL, args)
}

// foldBoundSQL: credits of transactions older than this can be folded into the log. Every such
// transaction has ended, so no more of its credits can appear. It is 0 where Citus distributes the schema.
const foldBoundSQL = `count_fold_bound()`
