package usage

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// A count begins when a cap does. Jobs that were there before, and those that a
// core stored which had not heard of the cap, are in no count yet: they are
// adopted. A change that brings a cap unsettles the counts it may concern: a cap that was
// gone for a moment finds what was stored in that moment. The row's own lock keeps that
// exact: a job that ends meanwhile either goes uncounted or gives its credit.
//
// The jobs are walked in the order of their ids, a bounded number at a step, and the
// place is kept with the count: any core goes on from there.

// adoptStep is how many jobs one step walks.
const adoptStep = 5000

// walkTenantSQL walks the jobs that may belong into an active count of a tenant or of a
// queue, and says which of them are to be adopted.
const walkTenantSQL = `
SELECT id, counted & @counter::smallint = 0 AND (@queue::text IS NULL OR queue = @queue) AS missing FROM jobs
WHERE tenant_id = @tenant_id AND uuid_send(id) > uuid_send(@after::uuid)
ORDER BY uuid_send(id)
LIMIT @most`

const walkUserSQL = `
SELECT id, counted & @counter::smallint = 0 AS missing FROM jobs
WHERE tenant_id = @tenant_id AND user_id = @user AND uuid_send(id) > uuid_send(@after::uuid)
ORDER BY uuid_send(id)
LIMIT @most`

const walkUserRunningSQL = `
SELECT id, state = 'running' AND counted & @counter::smallint = 0 AS missing FROM jobs
WHERE tenant_id = @tenant_id AND user_id = @user AND uuid_send(id) > uuid_send(@after::uuid)
ORDER BY uuid_send(id)
LIMIT @most`

// walkRunningSQL walks no further than to those that are missing: of running jobs there
// are no more than workers can hold.
const walkRunningSQL = `
SELECT id, true AS missing FROM jobs
WHERE state = 'running' AND counted & @counter::smallint = 0
  AND (@tenant_id::uuid IS NULL OR tenant_id = @tenant_id) AND (@queue::text IS NULL OR queue = @queue)
LIMIT @most`

// adoptSQL takes jobs into a count, if they are still there and not in it. SKIP LOCKED:
// who holds the row is about to end it, or to lease it; the next walk finds it if it
// stays. Waiting here could go in a circle.
const adoptSQL = `
UPDATE jobs SET counted = counted | @counter::smallint
WHERE id = ANY(ARRAY(
  SELECT id FROM jobs
  WHERE id = ANY(@ids::uuid[]) AND counted & @counter::smallint = 0 AND (NOT @running OR state = 'running')
  FOR UPDATE SKIP LOCKED))`

type walkedJob struct {
	ID      uuid.UUID
	Missing bool
}

// walkOf gives the statement that walks the jobs of a count, and its arguments but for
// the place.
func walkOf(key CountKey) (string, pgx.StrictNamedArgs) {
	args := pgx.StrictNamedArgs{"counter": int16(key.Counter), "tenant_id": &key.Tenant, "most": adoptStep}
	switch key.Counter {
	case ActiveUser:
		args["user"] = key.Name
		return walkUserSQL, args
	case RunningUser:
		args["user"] = key.Name
		return walkUserRunningSQL, args
	case ActiveQueue, RunningQueue:
		args["queue"] = key.Name
	case RunningAll:
		args["tenant_id"], args["queue"] = nil, nil
	default:
		args["queue"] = nil
	}
	if key.Counter&RunningCounters != 0 {
		return walkRunningSQL, args
	}
	return walkTenantSQL, args
}

const keepCountSQL = `
INSERT INTO usage_counts (tenant_id, counter, name, opened_at)
SELECT k.tenant_id, k.counter, k.name, statement_timestamp()
FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[]) AS k(tenant_id, counter, name)
ON CONFLICT DO NOTHING`

// Keep begins the counts that are not kept yet. The jobs that are there already are
// adopted by a sweep; until that is done tally.exact counts them.
func (t *Tally) Keep(ctx context.Context, tx pgx.Tx) error {
	var fresh []CountKey
	for key, counted := range t.Counts {
		if !counted.kept {
			fresh = append(fresh, key)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	slices.SortFunc(fresh, CountKey.compare)
	_, err := tx.Exec(ctx, keepCountSQL, CountArgs(fresh))
	return err
}

// beginWalkSQL gives the place of a walk, and begins one where none is under way.
const beginWalkSQL = `
UPDATE usage_counts SET walk_from = COALESCE(walk_from, statement_timestamp())
WHERE tenant_id = @tenant_id AND counter = @counter AND name = @name AND NOT settled
RETURNING COALESCE(walk_after, '00000000-0000-0000-0000-000000000000')`

// walkedSQL notes the place, unless another core is further. A walk that began a minute
// after its cap, when every core had heard of it, and that left no job behind, settles the
// count; another begins where it did not.
const walkedSQL = `
UPDATE usage_counts
SET settled     = COALESCE(@ended AND NOT (walk_missed OR @missed) AND opened_at < walk_from - interval '1 minute', false),
    walk_missed = NOT @ended AND (walk_missed OR @missed),
    walk_after  = CASE WHEN NOT @ended THEN @after::uuid END,
    walk_from   = CASE WHEN NOT @ended THEN walk_from END,
    due_at      = CASE WHEN @ended THEN GREATEST(opened_at + interval '61 seconds', statement_timestamp() + interval '1 second')
                       ELSE statement_timestamp() END
WHERE tenant_id = @tenant_id AND counter = @counter AND name = @name AND NOT settled
  AND COALESCE(walk_after, '00000000-0000-0000-0000-000000000000') = @before`

// Backfill takes the walk of one count, of any tenant, a step further. It gives how many
// jobs it adopted, and whether the walk goes on.
func (s *Counts) Backfill(ctx context.Context, key CountKey) (adopted int64, more bool, err error) {
	place := pgx.StrictNamedArgs{"tenant_id": key.Tenant, "counter": int16(key.Counter), "name": key.Name}
	found, err := store.Query(ctx, s.Store, pgx.RowTo[uuid.UUID], beginWalkSQL, place)
	if err != nil || len(found) == 0 { // settled, or no cap any more
		return 0, false, err
	}
	sql, args := walkOf(key)
	ordered := sql != walkRunningSQL
	if ordered {
		args["after"] = found[0]
	}
	jobs, err := store.Query(ctx, s.Store, pgx.RowToStructByName[walkedJob], sql, args)
	if err != nil {
		return 0, false, fmt.Errorf("usage: adopt: %w", store.NothingChanged(err))
	}
	var missing []uuid.UUID
	for _, one := range jobs {
		if one.Missing {
			missing = append(missing, one.ID)
		}
	}
	more = len(jobs) == adoptStep
	place["before"], place["after"], place["ended"] = found[0], found[0], !more
	if more && ordered {
		place["after"] = jobs[len(jobs)-1].ID
	}
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		if adopted, err = s.adopt(ctx, tx, key, missing); err != nil {
			return err
		}
		place["missed"] = adopted < int64(len(missing))
		_, err = tx.Exec(ctx, walkedSQL, place)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("usage: adopt: %w", err)
	}
	return adopted, more, nil
}

// adopt takes jobs into a count under its lock.
func (s *Counts) adopt(ctx context.Context, tx pgx.Tx, key CountKey, ids []uuid.UUID) (adopted int64, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	read, err := s.LockAndRead(ctx, tx, key.lock(), []tenant.ID{key.Tenant}, []CountKey{key})
	if err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, adoptSQL, pgx.StrictNamedArgs{
		"counter": int16(key.Counter), "ids": ids, "running": key.Counter&RunningCounters != 0,
	})
	if err != nil {
		return 0, err
	}
	read.Counts[key].taken = tag.RowsAffected()
	batch := &pgx.Batch{}
	read.Append(batch)
	return tag.RowsAffected(), tx.SendBatch(ctx, batch).Close()
}

// dueCountsSQL leases counts that are to be walked, the longest overdue first: a core
// that dies, or fails, leaves them to the next.
const dueCountsSQL = `
UPDATE usage_counts AS k SET due_at = statement_timestamp() + interval '30 seconds'
FROM (SELECT tenant_id, counter, name FROM usage_counts
      WHERE NOT settled AND due_at <= statement_timestamp()
      ORDER BY due_at
      LIMIT @most
      FOR UPDATE SKIP LOCKED) AS due
WHERE k.tenant_id = due.tenant_id AND k.counter = due.counter AND k.name = due.name
RETURNING k.tenant_id, k.counter, k.name`

func scanKey(row pgx.CollectableRow) (CountKey, error) {
	var key CountKey
	err := row.Scan(&key.Tenant, &key.Counter, &key.Name)
	return key, err
}

// DueCounts gives counts, of any tenants, into which jobs may have to be adopted, and
// keeps them for this caller for half a minute.
func (s *Counts) DueCounts(ctx context.Context, most int) ([]CountKey, error) {
	keys, err := store.Query(ctx, s.Store, scanKey, dueCountsSQL, pgx.StrictNamedArgs{"most": most})
	if err != nil {
		return nil, fmt.Errorf("usage: due counts: %w", store.NothingChanged(err))
	}
	return keys, nil
}
