package budget

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// unsettledSQL gives accounts with settlements that no claim has counted in for a while: nothing has started since, or what is
// used is no part of the costs, or their transactions were open for long.
const unsettledSQL = `
SELECT DISTINCT tenant_id, budget, subject FROM (
  SELECT tenant_id, budget, subject FROM budget_settlements AS s
  WHERE at < statement_timestamp() - @late::interval AND tenant_id <> ALL(` + store.MovingSQL + `)
  LIMIT @most) AS late
ORDER BY tenant_id`

// strayedSQL deletes settlements of budgets that are gone.
const strayedSQL = `
DELETE FROM budget_settlements AS s
WHERE at < statement_timestamp() - @late::interval AND tenant_id <> ALL(` + store.MovingSQL + `)
  AND NOT EXISTS (SELECT FROM budgets AS b WHERE b.tenant_id = s.tenant_id AND b.name = s.budget)`

// Fold counts settlements in that claims have left, of up to most rows.
func (b *Budgets) Fold(ctx context.Context, most int) error {
	late, err := store.Query(ctx, b.Store, func(row pgx.CollectableRow) (ref Ref, err error) {
		return ref, row.Scan(&ref.Tenant, &ref.Name, &ref.Subject)
	}, unsettledSQL, store.Args{"late": 2 * lateSettlement, "most": most})
	if err != nil {
		return fmt.Errorf("budget: fold: %w", store.NotApplied(err))
	}
	byTenant := map[tenant.ID][]Ref{}
	for _, ref := range late {
		byTenant[ref.Tenant] = append(byTenant[ref.Tenant], ref)
	}
	for owner, refs := range byTenant {
		err := b.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": b.LockKey(store.LockClaim, owner)}); err != nil {
				return err
			}
			accounts, err := load(ctx, tx, refs, true)
			if err != nil {
				return err
			}
			batch := &pgx.Batch{}
			accounts.Append(batch)
			return tx.SendBatch(ctx, batch).Close()
		})
		if err != nil {
			return fmt.Errorf("budget: fold: %w", err)
		}
	}
	if len(late) > 0 {
		if err := store.Exec(ctx, b.Store, strayedSQL, store.Args{"late": 2 * lateSettlement}); err != nil {
			return fmt.Errorf("budget: fold: %w", store.NotApplied(err))
		}
	}
	return nil
}
