package caps

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// A count starts when its cap is set. Jobs stored before, and jobs stored by a core that had not
// refreshed its limits, are not counted yet: they are backfilled. A change that adds a cap makes
// the counts under it unsettled: jobs may have been stored while the cap was absent. The row lock
// makes the backfill exact: a job that ends at the same time is either never counted or leaves a
// credit.
//
// The jobs are scanned in the order of their ids, a bounded number per step, and the position is
// stored with the count: any core can continue.

// backfillStep is how many jobs one step scans.
const backfillStep = 5000

// scanTenantSQL scans the jobs of an active count of a tenant or of a queue, and gives which of
// them are not counted.
const scanTenantSQL = `
SELECT id, counted & @counter::smallint = 0 AND (@queue::text IS NULL OR queue = @queue) AND ` + tenant.OwnQueueSQL + ` AS missing FROM jobs
WHERE tenant_id = @tenant_id AND uuid_send(id) > uuid_send(@after::uuid)
ORDER BY uuid_send(id)
LIMIT @most`

const scanUserSQL = `
SELECT id, counted & @counter::smallint = 0 AS missing FROM jobs
WHERE tenant_id = @tenant_id AND user_id = @user AND uuid_send(id) > uuid_send(@after::uuid)
ORDER BY uuid_send(id)
LIMIT @most`

const scanUserRunningSQL = `
SELECT id, state = 'running' AND counted & @counter::smallint = 0 AS missing FROM jobs
WHERE tenant_id = @tenant_id AND user_id = @user AND uuid_send(id) > uuid_send(@after::uuid)
ORDER BY uuid_send(id)
LIMIT @most`

// scanRunningSQL gives only jobs that are not counted: running jobs are bounded by what workers can
// hold.
const scanRunningSQL = `
SELECT id, true AS missing FROM jobs
WHERE state = 'running' AND counted & @counter::smallint = 0 AND ` + tenant.OwnQueueSQL + `
  AND (@tenant_id::uuid IS NULL OR tenant_id = @tenant_id) AND (@queue::text IS NULL OR queue = @queue)
  AND (@of_type::text IS NULL OR queue || '/' || type = @of_type)
LIMIT @most`

// backfillSQL adds jobs to a count, if they still exist and are not in it. SKIP LOCKED: another
// transaction is about to end or lease the job; the next pass finds it if it remains. Waiting here
// could deadlock.
const backfillSQL = `
UPDATE jobs SET counted = counted | @counter::smallint
WHERE id = ANY(ARRAY(
  SELECT id FROM jobs
  WHERE id = ANY(@ids::uuid[]) AND counted & @counter::smallint = 0 AND (NOT @running OR state = 'running')
    AND (@queue::text IS NULL OR queue = @queue) -- it may have moved since it was found
    AND tenant_id <> ALL(` + store.MovingSQL + `)
  FOR UPDATE SKIP LOCKED))`

// queue is the queue of the count's jobs; nil for a count of several.
func (k CountKey) queue() *string {
	if k.Counter&(ActiveQueue|RunningQueue) == 0 {
		return nil
	}
	return &k.Name
}

type scannedJob struct {
	ID      uuid.UUID
	Missing bool
}

// scanOf gives the statement that scans the jobs of a count, and its arguments without the
// position.
func scanOf(key CountKey) (string, store.Args) {
	args := store.Args{"counter": int16(key.Counter), "tenant_id": &key.Tenant, "most": backfillStep}
	switch key.Counter {
	case ActiveUser:
		args["user"] = key.Name
		return scanUserSQL, args
	case RunningUser:
		args["user"] = key.Name
		return scanUserRunningSQL, args
	case ActiveTenant, ActiveQueue:
		args["queue"] = store.NullIfEmpty(key.Name)
		return scanTenantSQL, args
	case RunningQueue:
		args["queue"], args["of_type"] = key.Name, nil
	case RunningType:
		args["queue"], args["of_type"] = nil, key.Name
	case RunningTenant:
		args["queue"], args["of_type"] = nil, nil
	case RunningAll:
		args["queue"], args["of_type"], args["tenant_id"] = nil, nil, nil
	default: // no single counter
	}
	return scanRunningSQL, args
}

const ensureRowsSQL = `
WITH moving AS MATERIALIZED ( -- Citus takes no INSERT whose SELECT reads tables in a subquery
  SELECT ` + store.MovingSQL + ` AS tenants
), stored AS (
INSERT INTO usage_counts (tenant_id, counter, name, opened_at)
SELECT k.tenant_id, k.counter, k.name, statement_timestamp()
FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[]) AS k(tenant_id, counter, name)
WHERE k.tenant_id <> ALL((SELECT tenants FROM moving)::uuid[])
ON CONFLICT DO NOTHING
RETURNING 1
)
SELECT count(*) FROM stored`

// EnsureRows inserts the counts that have no row yet. A sweep backfills the existing jobs; until then
// Tally.Exact counts them.
func (t *Tally) EnsureRows(ctx context.Context, tx pgx.Tx) error {
	var fresh []CountKey
	for key, counted := range t.Counts {
		if !counted.stored {
			fresh = append(fresh, key)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	slices.SortFunc(fresh, CountKey.compare)
	_, err := tx.Exec(ctx, ensureRowsSQL, countArgs(fresh))
	return err
}

// ReadExact reads the counts of caps in a transaction that holds the locks of their tenants.
func ReadExact(ctx context.Context, tx pgx.Tx, list ...[]Cap) (*Tally, error) {
	counts, err := ReadUsage(ctx, tx, KeysOf(list...))
	if err != nil {
		return nil, err
	}
	if err := counts.EnsureRows(ctx, tx); err != nil {
		return nil, err
	}
	return counts, counts.Exact(ctx, tx, list...)
}

// startBackfillSQL gives the position of a backfill, and starts one if none is running.
const startBackfillSQL = `
UPDATE usage_counts SET backfill_start = LEAST(backfill_start, statement_timestamp())
WHERE tenant_id = @tenant_id AND counter = @counter AND name = @name AND NOT settled
  AND tenant_id <> ALL(` + store.MovingSQL + `)
RETURNING COALESCE(backfill_after, '00000000-0000-0000-0000-000000000000')`

// backfillProgressSQL stores the position, unless another core is further. A pass that began a minute after
// its cap, when every core had refreshed its limits, and that missed no job, settles the count;
// otherwise another pass begins.
const backfillProgressSQL = `
UPDATE usage_counts
SET settled         = COALESCE(@ended AND NOT (backfill_missed OR @missed) AND (SELECT opened_at < backfill_start - interval '1 minute'), false),
    backfill_missed = NOT @ended AND (backfill_missed OR @missed),
    backfill_after  = CASE WHEN NOT @ended THEN @after::uuid END,
    backfill_start  = CASE WHEN NOT @ended THEN backfill_start END,
    due_at          = (SELECT CASE WHEN @ended THEN GREATEST(opened_at + interval '61 seconds', statement_timestamp() + interval '1 second')
                                   ELSE statement_timestamp() END)
WHERE tenant_id = @tenant_id AND counter = @counter AND name = @name AND NOT settled
  AND COALESCE(backfill_after, '00000000-0000-0000-0000-000000000000') = @before
  AND tenant_id <> ALL(` + store.MovingSQL + `)`

// Backfill processes one step of one count, of any tenant. It gives how many jobs it added, and
// whether the pass continues.
func (s *Counts) Backfill(ctx context.Context, key CountKey) (added int64, more bool, err error) {
	place := store.Args{"tenant_id": key.Tenant, "counter": int16(key.Counter), "name": key.Name}
	found, err := store.Query(ctx, s.Store, pgx.RowTo[uuid.UUID], startBackfillSQL, place)
	if err != nil || len(found) == 0 { // settled, or no longer capped
		return 0, false, err
	}
	sql, args := scanOf(key)
	ordered := sql != scanRunningSQL
	if ordered {
		args["after"] = found[0]
	}
	jobs, err := store.Query(ctx, s.Store, pgx.RowToStructByName[scannedJob], sql, args)
	if err != nil {
		return 0, false, fmt.Errorf("caps: backfill: %w", store.NotApplied(err))
	}
	var missing []uuid.UUID
	for _, one := range jobs {
		if one.Missing {
			missing = append(missing, one.ID)
		}
	}
	more = len(jobs) == backfillStep
	place["before"], place["after"], place["ended"] = found[0], found[0], !more
	if more && ordered {
		place["after"] = jobs[len(jobs)-1].ID
	}
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		if added, err = s.backfill(ctx, tx, key, missing); err != nil {
			return err
		}
		place["missed"] = added < int64(len(missing))
		_, err = tx.Exec(ctx, backfillProgressSQL, place)
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("caps: backfill: %w", err)
	}
	return added, more, nil
}

// backfill adds jobs to a count under its lock.
func (s *Counts) backfill(ctx context.Context, tx pgx.Tx, key CountKey, ids []uuid.UUID) (added int64, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	read, err := s.LockAndRead(ctx, tx, key.lock(), []tenant.ID{key.Tenant}, []CountKey{key})
	if err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, backfillSQL, store.Args{
		"counter": int16(key.Counter), "ids": ids, "running": key.Counter&RunningCounters != 0, "queue": key.queue(),
	})
	if err != nil {
		return 0, err
	}
	read.Counts[key].taken = tag.RowsAffected()
	batch := &pgx.Batch{}
	read.Append(batch)
	return tag.RowsAffected(), tx.SendBatch(ctx, batch).Close()
}

// dueCountsSQL leases counts that are to be backfilled, the longest overdue first: after a core has
// died or failed, another continues.
const dueCountsSQL = `
UPDATE usage_counts AS k SET due_at = statement_timestamp() + interval '30 seconds'
FROM (SELECT tenant_id, counter, name FROM usage_counts
      WHERE NOT settled AND due_at <= statement_timestamp() AND tenant_id <> ALL(` + store.MovingSQL + `)
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

// DueCounts gives counts, of any tenants, that are to be backfilled, and reserves them for half a
// minute.
func (s *Counts) DueCounts(ctx context.Context, most int) ([]CountKey, error) {
	keys, err := store.Query(ctx, s.Store, scanKey, dueCountsSQL, store.Args{"most": most})
	if err != nil {
		return nil, fmt.Errorf("caps: due counts: %w", store.NotApplied(err))
	}
	return keys, nil
}
