package budget

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// idleSQL says that an account's newest row n, of the budget b, has been unchanged for longer than what it counts matters.
const idleSQL = `n.running = 0 AND n.since < statement_timestamp() - GREATEST(interval '40 days',
    COALESCE(b.per_ms * (COALESCE(b.burst, b.amount)::float8 / b.amount), 0) * interval '1 millisecond' + interval '2 days')`

// idleAccountsSQL gives accounts of users and keys that are forgotten.
const idleAccountsSQL = `
SELECT n.tenant_id, n.budget, n.subject
FROM (SELECT DISTINCT ON (tenant_id, budget, subject) * FROM budget_log ORDER BY tenant_id, budget, subject, seq DESC) AS n
JOIN budgets AS b ON b.tenant_id = n.tenant_id AND b.name = n.budget
WHERE b.by <> '' AND ` + idleSQL + ` AND n.tenant_id <> ALL(` + store.MovingSQL + `)
LIMIT @most`

// forgetSQL deletes the rows of accounts that are still idle: their sums become those of a day.
const forgetSQL = `
WITH idle AS (
  SELECT n.* FROM unnest(@names::text[], @subjects::text[]) AS asked(budget, subject)
  JOIN budgets AS b ON b.tenant_id = @tenant_id AND b.name = asked.budget
  CROSS JOIN LATERAL (
    SELECT * FROM budget_log AS l WHERE l.tenant_id = @tenant_id AND l.budget = asked.budget AND l.subject = asked.subject ORDER BY seq DESC LIMIT 1) AS n
  WHERE ` + idleSQL + `
    AND NOT EXISTS (SELECT FROM budget_settlements AS s WHERE s.tenant_id = @tenant_id AND s.budget = asked.budget AND s.subject = asked.subject)
), gone AS (
  DELETE FROM budget_log AS l USING idle WHERE l.tenant_id = idle.tenant_id AND l.budget = idle.budget AND l.subject = idle.subject
)
INSERT INTO budget_days (tenant_id, budget, day, reserved, used, overdrawn)
SELECT tenant_id, budget, day, reserved, used, overdrawn FROM idle`

// addUpSQL makes one row of those of a budget and a day that is over.
const addUpSQL = `
WITH several AS (
  SELECT tenant_id, budget, day FROM budget_days
  WHERE day < (statement_timestamp() AT TIME ZONE 'UTC')::date - 1 AND tenant_id <> ALL(` + store.MovingSQL + `)
  GROUP BY tenant_id, budget, day HAVING count(*) > 1 LIMIT @most
), gone AS (
  DELETE FROM budget_days AS d USING several AS s WHERE d.tenant_id = s.tenant_id AND d.budget = s.budget AND d.day = s.day
  RETURNING d.*
)
INSERT INTO budget_days (tenant_id, budget, day, reserved, used, overdrawn)
SELECT tenant_id, budget, day, sum(reserved), sum(used), sum(overdrawn) FROM gone GROUP BY tenant_id, budget, day`

// Forget forgets up to most accounts of users and keys that have not been used for long, and adds up the rows of days.
func (b *Budgets) Forget(ctx context.Context, most int) error {
	idle, err := store.Query(store.WithClass(ctx, store.ClassLists), b.Store, func(row pgx.CollectableRow) (ref Ref, err error) {
		return ref, row.Scan(&ref.Tenant, &ref.Name, &ref.Subject)
	}, idleAccountsSQL, store.Args{"most": most})
	if err != nil {
		return fmt.Errorf("budget: forget: %w", store.NotApplied(err))
	}
	byTenant := map[tenant.ID][]Ref{}
	for _, ref := range idle {
		byTenant[ref.Tenant] = append(byTenant[ref.Tenant], ref)
	}
	for owner, refs := range byTenant {
		err := b.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": b.LockKey(store.LockClaim, owner)}); err != nil {
				return err
			}
			_, names, subjects := columns(refs)
			_, err := tx.Exec(ctx, forgetSQL, store.Args{"tenant_id": owner, "names": names, "subjects": subjects})
			return err
		})
		if err != nil {
			return fmt.Errorf("budget: forget: %w", err)
		}
	}
	if err := store.Exec(ctx, b.Store, addUpSQL, store.Args{"most": most}); err != nil {
		return fmt.Errorf("budget: forget: %w", store.NotApplied(err))
	}
	return nil
}
