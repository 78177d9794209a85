package tenants

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// capsAdded compares limits before and after.
func capsAdded(before, after api.Limits) (counters caps.Counter) {
	for counter, pair := range map[caps.Counter][2]*int64{
		caps.ActiveTenant: {before.MaxActive, after.MaxActive}, caps.ActiveUser: {before.UserMaxActive, after.UserMaxActive},
		caps.RunningTenant: {before.MaxRunning, after.MaxRunning}, caps.RunningUser: {before.UserMaxRunning, after.UserMaxRunning},
	} {
		if pair[0] == nil && pair[1] != nil {
			counters |= counter
		}
	}
	return counters
}

const planBeforeSQL = `SELECT limits FROM plans WHERE name = @name FOR UPDATE`

func capsAddedByPlan(name string, after api.Limits) caps.AddedCaps {
	return func(ctx context.Context, tx pgx.Tx) (caps.Counter, error) {
		var before api.Limits
		err := tx.QueryRow(ctx, planBeforeSQL, store.Args{"name": name}).Scan(&before)
		if errors.Is(err, pgx.ErrNoRows) { // no tenant has it
			return 0, nil
		}
		return capsAdded(before, after), err
	}
}

const tenantBeforeSQL = `SELECT plan, overrides FROM tenants WHERE id = @id FOR UPDATE`

// FOR SHARE: a concurrent change of a plan is before or after both reads.
const plansBeforeSQL = `SELECT name, limits FROM plans WHERE name = ANY(@names::text[]) ORDER BY name FOR SHARE`

func capsAddedByPatch(id tenant.ID, patch api.TenantPatch) caps.AddedCaps {
	return func(ctx context.Context, tx pgx.Tx) (counters caps.Counter, err error) {
		var plan string
		var raw []byte
		switch err := tx.QueryRow(ctx, tenantBeforeSQL, store.Args{"id": id}).Scan(&plan, &raw); {
		case errors.Is(err, pgx.ErrNoRows):
			return 0, nil
		case err != nil:
			return 0, err
		}
		var before, after api.Overrides
		_ = json.Unmarshal(raw, &before) // written by Patch alone
		next := plan
		if after = before; patch.Overrides != nil {
			after = *patch.Overrides
		}
		if patch.Plan != nil {
			next = *patch.Plan
		}
		plans := map[string]api.Limits{}
		rows, err := tx.Query(ctx, plansBeforeSQL, store.Args{"names": []string{plan, next}})
		if err != nil {
			return 0, err
		}
		var name string
		var limits api.Limits
		if _, err := pgx.ForEachRow(rows, []any{&name, &limits}, func() error {
			plans[name], limits = limits, api.Limits{}
			return nil
		}); err != nil {
			return 0, err
		}
		users := []string{""}
		for _, overrides := range []api.Overrides{before, after} {
			for user := range overrides.Users {
				users = append(users, user)
			}
		}
		for _, user := range users {
			counters |= capsAdded(before.For(plans[plan], user), after.For(plans[next], user))
		}
		return counters, nil
	}
}
