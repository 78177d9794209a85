package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// A count begins when a cap does. Jobs that were there before, and those that a
// core stored which had not heard of the cap, are in no count yet: they are
// adopted. A change of limits unsettles the counts it may concern: a cap that was
// gone for a moment finds what was stored in that moment. The row's own lock keeps that exact: a job that ends meanwhile either
// goes uncounted or gives its credit.

// adoptBatch bounds what one transaction adopts; a sweep goes on from there.
const adoptBatch = 10_000

// SKIP LOCKED: whoever holds the row is about to end it, or to lease it; the next
// pass finds it if it stays. Waiting here could go in a circle.
const adoptActiveSQL = `
UPDATE jobs SET counted = counted | @counter::smallint
WHERE id = ANY(ARRAY(
  SELECT id FROM jobs
  WHERE tenant_id = @tenant_id AND counted & @counter::smallint = 0
    AND (@user::text IS NULL OR user_id = @user) AND (@queue::text IS NULL OR queue = @queue)
  LIMIT @batch
  FOR UPDATE SKIP LOCKED))`

const adoptRunningSQL = `
UPDATE jobs SET counted = counted | @counter::smallint
WHERE id = ANY(ARRAY(
  SELECT id FROM jobs
  WHERE state = 'running' AND counted & @counter::smallint = 0
    AND (@tenant_id::uuid IS NULL OR tenant_id = @tenant_id)
    AND (@user::text IS NULL OR user_id = @user) AND (@queue::text IS NULL OR queue = @queue)
  LIMIT @batch
  FOR UPDATE SKIP LOCKED))`

// adopt puts jobs that are in no count of this key into it, and gives how many.
// Its caller holds the key's lock.
func adopt(ctx context.Context, tx pgx.Tx, key CountKey) (int64, error) {
	sql, args := adoptActiveSQL, adoptArgs(key)
	if key.Counter&runningCounters != 0 {
		sql = adoptRunningSQL
	}
	args["batch"] = adoptBatch
	tag, err := tx.Exec(ctx, sql, args)
	return tag.RowsAffected(), err
}

// adoptArgs say which jobs belong into a count.
func adoptArgs(key CountKey) pgx.StrictNamedArgs {
	args := pgx.StrictNamedArgs{"counter": int16(key.Counter), "tenant_id": &key.Tenant, "user": nil, "queue": nil}
	switch key.Counter {
	case ActiveUser, RunningUser:
		args["user"] = key.Name
	case ActiveQueue, RunningQueue:
		args["queue"] = key.Name
	case RunningAll:
		args["tenant_id"] = nil
	default: // the tenant's
	}
	return args
}

const keepCountSQL = `
INSERT INTO usage_counts (tenant_id, counter, name, opened_at)
SELECT k.tenant_id, k.counter, k.name, statement_timestamp()
FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[]) AS k(tenant_id, counter, name)
ON CONFLICT DO NOTHING`

// keep begins the counts that are not kept yet. The jobs that are there already are
// adopted by a sweep; until that is done tally.exact counts them.
func (t *tally) keep(ctx context.Context, tx pgx.Tx) error {
	var fresh []CountKey
	for key, counted := range t.counts {
		if !counted.kept {
			fresh = append(fresh, key)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	slices.SortFunc(fresh, CountKey.compare)
	_, err := tx.Exec(ctx, keepCountSQL, countArgs(fresh))
	return err
}

const settleCountSQL = `
UPDATE usage_counts SET settled = true
WHERE tenant_id = @tenant_id AND counter = @counter AND name = @name
  -- a core that had not heard of the cap has by now
  AND opened_at < statement_timestamp() - interval '1 minute'`

// leftActiveSQL and leftRunningSQL ask whether a job is left to adopt, locked ones
// included. They take no lock: on a large backlog they may take a while.
const leftActiveSQL = `
SELECT EXISTS (SELECT FROM jobs WHERE tenant_id = @tenant_id AND counted & @counter::smallint = 0
  AND (@user::text IS NULL OR user_id = @user) AND (@queue::text IS NULL OR queue = @queue))`

const leftRunningSQL = `
SELECT EXISTS (SELECT FROM jobs WHERE state = 'running' AND counted & @counter::smallint = 0
  AND (@tenant_id::uuid IS NULL OR tenant_id = @tenant_id)
  AND (@user::text IS NULL OR user_id = @user) AND (@queue::text IS NULL OR queue = @queue))`

// Adopt goes on with the adoption of jobs into one count of any tenant, and notes
// when none is left. It gives how many it adopted, and whether it should go on.
func (s *Store) Adopt(ctx context.Context, key CountKey) (adopted int64, more bool, err error) {
	class, sql, args := lockSubmit, leftActiveSQL, adoptArgs(key)
	if key.Counter&runningCounters != 0 {
		class, sql = lockClaim, leftRunningSQL
	}
	left, err := query(ctx, s, pgx.RowTo[bool], sql, args)
	if err != nil {
		return 0, false, fmt.Errorf("queue: adopt: %w", nothingChanged(err))
	}
	if !left[0] {
		noRow := func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }
		_, err := query(ctx, s, noRow, settleCountSQL, pgx.StrictNamedArgs{
			"tenant_id": key.Tenant, "counter": int16(key.Counter), "name": key.Name,
		})
		return 0, false, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		read, err := s.lockAndRead(ctx, tx, class, []tenant.ID{key.Tenant}, []CountKey{key})
		if err != nil {
			return err
		}
		if adopted, err = adopt(ctx, tx, key); err != nil || adopted == 0 {
			return err
		}
		read.counts[key].taken = adopted
		batch := &pgx.Batch{}
		read.append(batch)
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return 0, false, fmt.Errorf("queue: adopt: %w", err)
	}
	return adopted, adopted == adoptBatch, nil
}

const reopenSQL = `
UPDATE usage_counts SET settled = false, opened_at = statement_timestamp()
WHERE (@tenant_id::uuid IS NULL OR tenant_id = @tenant_id)
  AND (@queue::text IS NULL OR name = @queue)
  AND (@plan::text IS NULL OR tenant_id IN (SELECT id FROM tenants WHERE plan = @plan))`

// KeptCount is a count that is kept.
type KeptCount struct {
	CountKey
	// Settled says that no job is left to adopt.
	Settled bool
}

const keptCountsSQL = `SELECT tenant_id, counter, name, settled FROM usage_counts`

// KeptCounts lists the counts of all tenants that are kept.
func (s *Store) KeptCounts(ctx context.Context) ([]KeptCount, error) {
	scan := func(row pgx.CollectableRow) (KeptCount, error) {
		var kept KeptCount
		err := row.Scan(&kept.Tenant, &kept.Counter, &kept.Name, &kept.Settled)
		return kept, err
	}
	kept, err := query(ctx, s, scan, keptCountsSQL, pgx.StrictNamedArgs{})
	if err != nil {
		return nil, fmt.Errorf("queue: kept counts: %w", nothingChanged(err))
	}
	return kept, nil
}

const dropCountsSQL = `
DELETE FROM usage_counts
WHERE (tenant_id, counter, name) IN (SELECT * FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[]))`

// DropCounts ends the keeping of counts whose cap is gone. Jobs that are in them
// stay in them, so what the log says stays true; jobs that come are in none, and
// are adopted when the cap is back.
func (s *Store) DropCounts(ctx context.Context, keys []CountKey) error {
	if len(keys) == 0 {
		return nil
	}
	noRow := func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }
	if _, err := query(ctx, s, noRow, dropCountsSQL, countArgs(keys)); err != nil {
		return fmt.Errorf("queue: drop counts: %w", err)
	}
	return nil
}

// pruneLogSQL leaves the newest row of each key, and what nobody reads any more
// goes. Readers take the newest row that they see and credits from its bound on;
// a row that is older than one that everybody sees now is nobody's newest.
const pruneLogSQL = `
DELETE FROM usage_log
WHERE (tenant_id, counter, name, seq) IN (
  SELECT tenant_id, counter, name, seq FROM (
    SELECT tenant_id, counter, name, seq,
           row_number() OVER (PARTITION BY tenant_id, counter, name ORDER BY seq DESC) AS age
    FROM usage_log) AS rows
  WHERE age > 1
  LIMIT @batch)`

const pruneCreditsSQL = `
DELETE FROM usage_credits c
USING (SELECT DISTINCT ON (tenant_id, counter, name) tenant_id, counter, name, bound
       FROM usage_log ORDER BY tenant_id, counter, name, seq DESC) AS newest
WHERE c.tenant_id = newest.tenant_id AND c.counter = newest.counter AND c.name = newest.name AND c.xid < newest.bound`

// PruneUsage removes log rows and credits, of all tenants, that are folded into
// newer rows. It gives how many rows went.
func (s *Store) PruneUsage(ctx context.Context, batch int) (int64, error) {
	var pruned int64
	err := s.inReport(ctx, func(tx pgx.Tx) error {
		for _, statement := range []struct {
			sql  string
			args pgx.StrictNamedArgs
		}{{pruneCreditsSQL, pgx.StrictNamedArgs{}}, {pruneLogSQL, pgx.StrictNamedArgs{"batch": batch}}} {
			tag, err := tx.Exec(ctx, statement.sql, statement.args)
			if err != nil {
				return err
			}
			pruned += tag.RowsAffected()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("queue: prune usage: %w", err)
	}
	return pruned, nil
}
