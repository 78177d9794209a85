package caps

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// pruneKeys is how many counts one step prunes, pruneRows the limit of deleted rows per table.
	pruneKeys = 200
	pruneRows = 20_000
)

// loggedCountsSQL lists the counts that have a log, in the order of their keys: one index probe for each,
// however many rows it has. idle says that nothing was added for an hour.
const loggedCountsSQL = `
WITH RECURSIVE logged AS (
  (SELECT tenant_id, counter, name, 1 AS n FROM usage_log
   WHERE (tenant_id, counter, name) > (@tenant_id::uuid, @counter::smallint, @name::text)
   ORDER BY tenant_id, counter, name
   LIMIT 1)
  UNION ALL
  SELECT next.tenant_id, next.counter, next.name, logged.n + 1
  FROM logged CROSS JOIN LATERAL (
    SELECT l.tenant_id, l.counter, l.name FROM usage_log l
    WHERE (l.tenant_id, l.counter, l.name) > (logged.tenant_id, logged.counter, logged.name)
    ORDER BY l.tenant_id, l.counter, l.name
    LIMIT 1) AS next
  WHERE logged.n < @most
)
SELECT logged.tenant_id, logged.counter, logged.name, newest.seq, newest.bound::text AS bound,
       newest.written_at < statement_timestamp() - interval '1 hour' AS idle
FROM logged CROSS JOIN LATERAL (
  SELECT l.seq, l.bound, l.written_at FROM usage_log l
  WHERE l.tenant_id = logged.tenant_id AND l.counter = logged.counter AND l.name = logged.name
  ORDER BY l.seq DESC
  LIMIT 1) AS newest
ORDER BY logged.n`

type loggedCount struct {
	TenantID tenant.ID
	Counter  Counter
	Name     string
	Seq      int64
	Bound    string
	Idle     bool
}

func (r *loggedCount) key() CountKey { return CountKey{r.TenantID, r.Counter, r.Name} }

// pruneLogSQL leaves the newest row of each key. Readers take the newest visible row and credits
// from its bound on; a row older than one that all snapshots see is never the newest. A count that
// was deleted since, see foldOrDeleteLocked, and started again has lower sequence numbers: rows are older only
// while the newest row still exists.
const pruneLogSQL = `
DELETE FROM usage_log WHERE ctid = ANY(ARRAY(
  SELECT old.ctid
  FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[], @seqs::bigint[]) AS k(tenant_id, counter, name, seq)
  CROSS JOIN LATERAL (
    SELECT FROM usage_log l
    WHERE l.tenant_id = k.tenant_id AND l.counter = k.counter AND l.name = k.name AND l.seq = k.seq
    LIMIT 1) AS newest
  CROSS JOIN LATERAL (
    SELECT l.ctid FROM usage_log l
    WHERE l.tenant_id = k.tenant_id AND l.counter = k.counter AND l.name = k.name AND l.seq < k.seq
    ORDER BY l.seq
    LIMIT @most
    FOR UPDATE SKIP LOCKED) AS old
  LIMIT @most))`

// pruneCreditsSQL deletes what the newest row has folded.
const pruneCreditsSQL = `
DELETE FROM usage_credits WHERE ctid = ANY(ARRAY(
  SELECT old.ctid
  FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[], @bounds::text[]) AS k(tenant_id, counter, name, bound)
  CROSS JOIN LATERAL (
    SELECT c.ctid FROM usage_credits c
    WHERE c.tenant_id = k.tenant_id AND c.counter = k.counter AND c.name = k.name AND c.xid < k.bound::xid8
    ORDER BY c.xid
    LIMIT @most
    FOR UPDATE SKIP LOCKED) AS old
  LIMIT @most))`

// PruneUsage processes one step of all tenants' counts, from the count after the one given; the
// zero key is before all. It deletes rows that are folded into newer ones, writes a row where many
// credits wait for one, and deletes counts that are zero and were not used for an hour. It gives
// how many rows were deleted, and where to continue: the zero key at the end.
func (s *Counts) PruneUsage(ctx context.Context, after CountKey) (pruned int64, next CountKey, err error) {
	logged, err := store.Query(ctx, s.Store, pgx.RowToStructByName[loggedCount], loggedCountsSQL, store.Args{
		"tenant_id": after.Tenant, "counter": int16(after.Counter), "name": after.Name, "most": pruneKeys,
	})
	if err != nil {
		return 0, after, fmt.Errorf("caps: prune usage: %w", store.NotApplied(err))
	}
	if len(logged) == 0 {
		return 0, CountKey{}, nil
	}
	pruned, whole, err := s.prune(ctx, logged)
	if err == nil {
		err = s.foldOrDelete(ctx, logged)
	}
	if err != nil {
		return pruned, after, fmt.Errorf("caps: prune usage: %w", err)
	}
	switch {
	case !whole:
		return pruned, after, nil
	case len(logged) < pruneKeys:
		return pruned, CountKey{}, nil
	}
	return pruned, logged[len(logged)-1].key(), nil
}

// prune deletes rows that newer rows replace; whole says that none is left.
func (s *Counts) prune(ctx context.Context, logged []loggedCount) (pruned int64, whole bool, err error) {
	keys, seqs, bounds := make([]CountKey, len(logged)), make([]int64, len(logged)), make([]string, len(logged))
	for i, row := range logged {
		keys[i], seqs[i], bounds[i] = row.key(), row.Seq, row.Bound
	}
	whole = true
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		log, credits := countArgs(keys), countArgs(keys)
		log["seqs"], log["most"], credits["bounds"], credits["most"] = seqs, pruneRows, bounds, pruneRows
		for sql, args := range map[string]store.Args{pruneLogSQL: log, pruneCreditsSQL: credits} {
			tag, err := tx.Exec(ctx, sql, args)
			if err != nil {
				return err
			}
			pruned += tag.RowsAffected()
			whole = whole && tag.RowsAffected() < pruneRows
		}
		return nil
	})
	return pruned, whole, err
}

// foldOrDelete does what submits and claims do not: it writes a row that folds credits, or deletes a count.
func (s *Counts) foldOrDelete(ctx context.Context, logged []loggedCount) error {
	keys, idle := make([]CountKey, len(logged)), map[CountKey]bool{}
	for i, row := range logged {
		keys[i] = row.key()
		idle[keys[i]] = row.Idle
	}
	read, err := s.readCounts(ctx, keys)
	if err != nil {
		return err
	}
	type owner struct {
		tenant tenant.ID
		class  store.LockClass
	}
	todo := map[owner][]CountKey{}
	for _, key := range keys {
		if counted := read.Counts[key]; counted.crowded || counted.used == 0 && idle[key] {
			todo[owner{key.Tenant, key.lock()}] = append(todo[owner{key.Tenant, key.lock()}], key)
		}
	}
	for key, keys := range todo {
		if err := s.foldOrDeleteLocked(ctx, key.tenant, key.class, keys, idle); err != nil {
			return err
		}
	}
	return nil
}

func (s *Counts) readCounts(ctx context.Context, keys []CountKey) (*Tally, error) {
	ctx, cancel := s.Bound(ctx)
	defer cancel()
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	read, err := ReadUsage(ctx, conn, keys)
	return read, store.NotApplied(store.Classify(err))
}

// foldOrDeleteLocked does it for counts of one lock, if that is free. Under the lock a count of zero has no
// job that could still leave a credit, so its rows can be deleted: it starts again with the next
// job.
func (s *Counts) foldOrDeleteLocked(ctx context.Context, owner tenant.ID, class store.LockClass, keys []CountKey, idle map[CountKey]bool) error {
	return s.InTx(ctx, func(tx pgx.Tx) error {
		var free bool
		if err := tx.QueryRow(ctx, store.TryHoldSQL, store.Args{"lock": s.LockKey(class, owner)}).Scan(&free); err != nil || !free {
			return err
		}
		read, err := ReadUsage(ctx, tx, keys)
		if err != nil {
			return err
		}
		var gone []CountKey
		for _, key := range keys {
			if read.Counts[key].used == 0 && idle[key] {
				gone = append(gone, key)
				delete(read.Counts, key)
			}
		}
		batch := &pgx.Batch{}
		read.Append(batch)
		if len(gone) > 0 {
			slices.SortFunc(gone, CountKey.compare)
			for _, sql := range []string{forgetLogSQL, forgetCreditsSQL, dropCountsSQL} {
				batch.Queue(sql, countArgs(gone))
			}
		}
		return tx.SendBatch(ctx, batch).Close()
	})
}

const forgetLogSQL = `
DELETE FROM usage_log AS l
USING unnest(@tenants::uuid[], @counters::smallint[], @names::text[]) AS k(tenant_id, counter, name)
WHERE l.tenant_id = k.tenant_id AND l.counter = k.counter AND l.name = k.name`

const forgetCreditsSQL = `
DELETE FROM usage_credits AS c
USING unnest(@tenants::uuid[], @counters::smallint[], @names::text[]) AS k(tenant_id, counter, name)
WHERE c.tenant_id = k.tenant_id AND c.counter = k.counter AND c.name = k.name`
