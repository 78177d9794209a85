package caps

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// unsettleSQL makes counts that have got a cap unsettled, and restarts their backfill.
const unsettleSQL = `
UPDATE usage_counts
SET settled = false, opened_at = statement_timestamp(), due_at = statement_timestamp(),
    backfill_start = NULL, backfill_after = NULL, backfill_missed = false
WHERE counter = ANY(@counters::smallint[])
  AND (@tenant_id::uuid IS NULL OR tenant_id = @tenant_id)
  AND (@queue::text IS NULL OR name = @queue OR counter = 128 AND split_part(name, '/', 1) = @queue)
  AND (@plan::text IS NULL OR tenant_id IN (SELECT id FROM tenants WHERE plan = @plan))`

const reopenSQL = `
UPDATE usage_counts
SET settled = false, opened_at = statement_timestamp(), due_at = statement_timestamp(),
    backfill_start = NULL, backfill_after = NULL, backfill_missed = false
WHERE tenant_id = @tenant_id AND counter = @counter AND name = @name AND settled
  AND tenant_id <> ALL(` + store.MovingSQL + `)`

// Reopen has a settled count backfilled again, from now on and until it is settled again: it lacks jobs. A core that stalled
// for more than a minute between its look at the limits and its commit stored them, without the cap.
func (s *Counts) Reopen(ctx context.Context, key CountKey) error {
	args := store.Args{"tenant_id": key.Tenant, "counter": int16(key.Counter), "name": key.Name}
	if err := store.Exec(ctx, s.Store, reopenSQL, args); err != nil {
		return fmt.Errorf("caps: reopen a count: %w", err)
	}
	return nil
}

// StoredCount is a count that has a row.
type StoredCount struct {
	CountKey
	// Settled says that no job is left to backfill.
	Settled bool
	// Unused says that it started at least an hour ago and has no log.
	Unused bool
}

const storedCountsSQL = `
SELECT k.tenant_id, k.counter, k.name, k.settled,
       k.opened_at < statement_timestamp() - interval '1 hour' AND NOT EXISTS (
         SELECT FROM usage_log l WHERE l.tenant_id = k.tenant_id AND l.counter = k.counter AND l.name = k.name) AS unused
FROM usage_counts k
WHERE (k.tenant_id, k.counter, k.name) > (@tenant_id::uuid, @counter::smallint, @name::text)
ORDER BY k.tenant_id, k.counter, k.name
LIMIT @most`

// StoredCounts lists counts of all tenants in the order of their keys, after one of them; the zero
// key is before all.
func (s *Counts) StoredCounts(ctx context.Context, after CountKey, most int) ([]StoredCount, error) {
	scan := func(row pgx.CollectableRow) (StoredCount, error) {
		var stored StoredCount
		err := row.Scan(&stored.Tenant, &stored.Counter, &stored.Name, &stored.Settled, &stored.Unused)
		return stored, err
	}
	stored, err := store.Query(ctx, s.Store, scan, storedCountsSQL, store.Args{
		"tenant_id": after.Tenant, "counter": int16(after.Counter), "name": after.Name, "most": most,
	})
	if err != nil {
		return nil, fmt.Errorf("caps: stored counts: %w", store.NotApplied(err))
	}
	return stored, nil
}

const dropCountsSQL = `
DELETE FROM usage_counts
WHERE (tenant_id, counter, name) IN (SELECT * FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[]))`

// DropCounts deletes counts without a cap. Jobs that are counted stay counted, so the log stays
// correct; new jobs are not counted, and are backfilled when the cap is set again.
func (s *Counts) DropCounts(ctx context.Context, keys []CountKey) error {
	if len(keys) == 0 {
		return nil
	}
	if err := store.Exec(ctx, s.Store, dropCountsSQL, countArgs(keys)); err != nil {
		return fmt.Errorf("caps: drop counts: %w", err)
	}
	return nil
}
