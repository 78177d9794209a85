package budget

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	byOfSQL = `
SELECT by FROM budgets WHERE tenant_id = @tenant_id AND name = @name FOR UPDATE`

	countSQL = `
SELECT count(*) FROM budgets WHERE tenant_id = @tenant_id AND name <> @name`

	// Setting a budget opens it.
	putSQL = `
INSERT INTO budgets (tenant_id, name, unit, amount, per_ms, "window", timezone, burst, by, label, created_at, updated_at)
VALUES (@tenant_id, @name, @unit, @amount, @per_ms, @window, @timezone, @burst, @by, @label, statement_timestamp(), statement_timestamp())
ON CONFLICT (tenant_id, name) DO UPDATE
SET unit = EXCLUDED.unit, amount = EXCLUDED.amount, per_ms = EXCLUDED.per_ms, "window" = EXCLUDED."window", timezone = EXCLUDED.timezone,
    burst = EXCLUDED.burst, label = EXCLUDED.label, closed_until = NULL, updated_at = EXCLUDED.updated_at`

	checkLinesSQL = `
INSERT INTO key_checks (tenant_id, queue, keys)
SELECT @tenant_id, '', array_agg(key) FROM (
  SELECT key, row_number() OVER () / 500 AS part FROM (
    SELECT DISTINCT budget || '` + checkSeparator + `' || subject AS key FROM budget_line WHERE tenant_id = @tenant_id AND budget = @name AND passed_at IS NULL) AS k) AS parts
GROUP BY part`

	// The rows of its line stay for their jobs, which pass.
	deleteSQL = `
WITH log AS (
  DELETE FROM budget_log WHERE tenant_id = @tenant_id AND budget = @name
), settled AS (
  DELETE FROM budget_settlements WHERE tenant_id = @tenant_id AND budget = @name
), days AS (
  DELETE FROM budget_days WHERE tenant_id = @tenant_id AND budget = @name
)
DELETE FROM budgets WHERE tenant_id = @tenant_id AND name = @name`
)

// Put sets a budget, and opens it where it was closed.
func (b *Budgets) Put(ctx context.Context, owner tenant.ID, name string, request api.BudgetRequest) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	zone := request.Timezone
	if zone == "" {
		zone = time.UTC.String()
	}
	if _, err := time.LoadLocation(zone); err != nil || zone == time.Local.String() {
		return problem.Invalid(problem.FieldError{Field: "timezone", Message: "is not a name of the IANA time zone database, such as Europe/Berlin"})
	}
	err := b.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		args := store.Args{"tenant_id": owner, "name": name}
		// One change at a time, for the bound.
		if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": b.LockKey(store.LockLane, owner)}); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, byOfSQL, args)
		if err != nil {
			return err
		}
		by, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		if len(by) > 0 && by[0] != store.OrElse(request.By, "") {
			return problem.Invalid(problem.FieldError{Field: "by", Message: "cannot be changed; delete the budget, and create it again"})
		}
		var others int
		if err := tx.QueryRow(ctx, countSQL, args).Scan(&others); err != nil {
			return err
		}
		if others >= api.MaxBudgets {
			return problem.Invalid(problem.FieldError{Field: "name", Message: fmt.Sprintf("the tenant has %d budgets, which is the most; delete one", others)})
		}
		if _, err := tx.Exec(ctx, putSQL, store.Args{
			"tenant_id": owner, "name": name, "unit": request.Unit, "amount": request.Amount, "per_ms": request.PerMS, "window": request.Window,
			"timezone": zone, "burst": request.Burst, "by": store.OrElse(request.By, ""), "label": request.Label,
		}); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, checkLinesSQL, args); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditBudgetPut, Object: name, Detail: map[string]any{
			"unit": request.Unit, "amount": request.Amount, "per_ms": request.PerMS, "window": request.Window, "burst": request.Burst, "label": request.Label,
		}})
	})
	if err != nil {
		return fmt.Errorf("budget: put: %w", err)
	}
	return nil
}

// Delete deletes a budget, with what is known of its use: jobs that wait for it pass. ErrNotFound where there is none.
func (b *Budgets) Delete(ctx context.Context, owner tenant.ID, name string) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	err := b.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		args := store.Args{"tenant_id": owner, "name": name}
		// Claims read accounts under their lock.
		if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": b.LockKey(store.LockClaim, owner)}); err != nil {
			return err
		}
		gone, err := tx.Exec(ctx, deleteSQL, args)
		if err != nil {
			return err
		}
		if gone.RowsAffected() == 0 {
			return store.ErrNotFound
		}
		if _, err := tx.Exec(ctx, checkLinesSQL, args); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditBudgetDelete, Object: name})
	})
	if err != nil {
		return fmt.Errorf("budget: delete: %w", err)
	}
	return nil
}
