package usage

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// ReopenSQL unsettles counts that have got a cap, and lets their walks begin anew.
const ReopenSQL = `
UPDATE usage_counts
SET settled = false, opened_at = statement_timestamp(), due_at = statement_timestamp(),
    walk_from = NULL, walk_after = NULL, walk_missed = false
WHERE counter = ANY(@counters::smallint[])
  AND (@tenant_id::uuid IS NULL OR tenant_id = @tenant_id)
  AND (@queue::text IS NULL OR name = @queue)
  AND (@plan::text IS NULL OR tenant_id IN (SELECT id FROM tenants WHERE plan = @plan))`

// KeptCount is a count that is kept.
type KeptCount struct {
	CountKey
	// Settled says that no job is left to adopt.
	Settled bool
	// Unused says that nothing was ever counted since it began an hour ago or longer.
	Unused bool
}

const keptCountsSQL = `
SELECT k.tenant_id, k.counter, k.name, k.settled,
       k.opened_at < statement_timestamp() - interval '1 hour' AND NOT EXISTS (
         SELECT FROM usage_log l WHERE l.tenant_id = k.tenant_id AND l.counter = k.counter AND l.name = k.name) AS unused
FROM usage_counts k
WHERE (k.tenant_id, k.counter, k.name) > (@tenant_id::uuid, @counter::smallint, @name::text)
ORDER BY k.tenant_id, k.counter, k.name
LIMIT @most`

// KeptCounts lists counts of all tenants that are kept, in the order of their keys, after
// one of them: the zero key is before all.
func (s *Counts) KeptCounts(ctx context.Context, after CountKey, most int) ([]KeptCount, error) {
	scan := func(row pgx.CollectableRow) (KeptCount, error) {
		var kept KeptCount
		err := row.Scan(&kept.Tenant, &kept.Counter, &kept.Name, &kept.Settled, &kept.Unused)
		return kept, err
	}
	kept, err := store.Query(ctx, s.Store, scan, keptCountsSQL, pgx.StrictNamedArgs{
		"tenant_id": after.Tenant, "counter": int16(after.Counter), "name": after.Name, "most": most,
	})
	if err != nil {
		return nil, fmt.Errorf("usage: kept counts: %w", store.NothingChanged(err))
	}
	return kept, nil
}

const dropCountsSQL = `
DELETE FROM usage_counts
WHERE (tenant_id, counter, name) IN (SELECT * FROM unnest(@tenants::uuid[], @counters::smallint[], @names::text[]))`

// DropCounts ends the keeping of counts whose cap is gone. Jobs that are in them
// stay in them, so what the log says stays true; jobs that come are in none, and
// are adopted when the cap is back.
func (s *Counts) DropCounts(ctx context.Context, keys []CountKey) error {
	if len(keys) == 0 {
		return nil
	}
	noRow := func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }
	if _, err := store.Query(ctx, s.Store, noRow, dropCountsSQL, CountArgs(keys)); err != nil {
		return fmt.Errorf("usage: drop counts: %w", err)
	}
	return nil
}
