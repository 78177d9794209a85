package directory

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A change of limits that adds a cap makes the count unsettled: jobs may have been stored without
// it. Where there was a cap before, of any height, all jobs were counted, and nothing is to do. The
// limits before are read under locks that are held until the change commits.

// addedCaps gives the counters for which a change adds a cap.
type addedCaps func(ctx context.Context, tx pgx.Tx) (usage.Counter, error)

// capsAdded compares limits before and after.
func capsAdded(before, after api.Limits) (counters usage.Counter) {
	for counter, pair := range map[usage.Counter][2]*int64{
		usage.ActiveTenant: {before.MaxActive, after.MaxActive}, usage.ActiveUser: {before.UserMaxActive, after.UserMaxActive},
		usage.RunningTenant: {before.MaxRunning, after.MaxRunning}, usage.RunningUser: {before.UserMaxRunning, after.UserMaxRunning},
	} {
		if pair[0] == nil && pair[1] != nil {
			counters |= counter
		}
	}
	return counters
}

const planBeforeSQL = `SELECT limits FROM plans WHERE name = @name FOR UPDATE`

func capsAddedByPlan(name string, after api.Limits) addedCaps {
	return func(ctx context.Context, tx pgx.Tx) (usage.Counter, error) {
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

func capsAddedByPatch(id tenant.ID, patch api.TenantPatch) addedCaps {
	return func(ctx context.Context, tx pgx.Tx) (counters usage.Counter, err error) {
		var plan string
		var raw []byte
		switch err := tx.QueryRow(ctx, tenantBeforeSQL, store.Args{"id": id}).Scan(&plan, &raw); {
		case errors.Is(err, pgx.ErrNoRows):
			return 0, nil
		case err != nil:
			return 0, err
		}
		var before, after api.Overrides
		_ = json.Unmarshal(raw, &before) // written by PatchTenant alone
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

const queueBeforeSQL = `SELECT max_active, max_running, types FROM queues WHERE tenant_id = @tenant_id AND name = @name FOR UPDATE`

func capsAddedByQueue(owner tenant.ID, name string, request api.QueueRequest) addedCaps {
	return func(ctx context.Context, tx pgx.Tx) (counters usage.Counter, err error) {
		var active, running *int64
		var types api.TypeLimits
		err = tx.QueryRow(ctx, queueBeforeSQL, store.Args{"tenant_id": owner, "name": name}).Scan(&active, &running, &types)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return 0, err
		}
		if active == nil && request.MaxActive != nil {
			counters |= usage.ActiveQueue
		}
		if running == nil && request.MaxRunning != nil {
			counters |= usage.RunningQueue
		}
		for jobType, limits := range request.Types {
			if limits.MaxRunning != nil && types[jobType].MaxRunning == nil {
				counters |= usage.RunningType
			}
		}
		return counters, nil
	}
}
