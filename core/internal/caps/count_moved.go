package caps

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// bitsSQL counts a tenant's jobs by the counts that they say they are in.
const bitsSQL = `
SELECT c.owner, c.counter::smallint, c.name, count(*) AS n
FROM jobs CROSS JOIN LATERAL ` + countersSQL + `
WHERE jobs.tenant_id = @tenant_id AND jobs.counted <> 0 AND jobs.counted & c.counter <> 0
GROUP BY 1, 2, 3`

// CountMoved counts all of a tenant's jobs, which the transaction has stored with the bits of their counts. The counts of the
// tenant had no job before.
func (s *Counts) CountMoved(ctx context.Context, tx pgx.Tx, owner tenant.ID) error {
	rows, err := tx.Query(ctx, bitsSQL, store.Args{"tenant_id": owner})
	if err != nil {
		return fmt.Errorf("caps: adopt: %w", err)
	}
	taken := map[CountKey]int64{}
	var key CountKey
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&key.Tenant, &key.Counter, &key.Name, &n}, func() error {
		taken[key] = n
		return nil
	}); err != nil {
		return fmt.Errorf("caps: adopt: %w", err)
	}
	// submits before claims, and the tenant's before the installation's, as in every transaction that takes several
	for _, lock := range []struct {
		class store.LockClass
		owner tenant.ID
	}{{store.LockSubmit, owner}, {store.LockClaim, owner}, {store.LockClaim, tenant.Platform}} {
		var keys []CountKey
		for key := range taken {
			if key.lock() == lock.class && key.Tenant == lock.owner {
				keys = append(keys, key)
			}
		}
		if len(keys) == 0 {
			continue
		}
		tally, err := s.LockAndRead(ctx, tx, lock.class, []tenant.ID{lock.owner}, keys)
		if err != nil {
			return fmt.Errorf("caps: adopt: %w", err)
		}
		for _, key := range keys {
			tally.Counts[key].taken = taken[key]
		}
		batch := &pgx.Batch{}
		tally.Append(batch)
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return fmt.Errorf("caps: adopt: %w", err)
		}
	}
	return nil
}

const capsAllSQL = `
SELECT EXISTS (SELECT FROM usage_counts WHERE counter = 64)`

// CountsAll says whether the cell counts the running jobs of all tenants.
func (s *Counts) CountsAll(ctx context.Context, tx pgx.Tx) (counts bool, err error) {
	err = tx.QueryRow(ctx, capsAllSQL).Scan(&counts)
	return counts, err
}
