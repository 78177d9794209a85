package tenants

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const copyTenantSQL = `
INSERT INTO tenants (id, name, plan, weight, overrides, created_at)
VALUES (@id, @name, @plan, @weight, @overrides::json, @created_at)
ON CONFLICT (id) DO NOTHING`

// Copy makes a cell's copy of a tenant as the home cell has it. As a change by the operator, a copy that adds a cap makes its
// counts unsettled.
func Copy(ctx context.Context, tx pgx.Tx, given *hop.DirectoryTenant) error {
	id, err := uuid.Parse(given.ID)
	if err != nil {
		return err
	}
	columns := store.Args{"id": id, "name": given.Name, "plan": given.Plan, "weight": given.Weight, "overrides": string(given.Overrides)}
	added := maps.Clone(columns)
	added["created_at"] = given.CreatedAt.Time
	if _, err := tx.Exec(ctx, copyTenantSQL, added); err != nil {
		return err
	}
	if given.Deleting {
		return markDeleted(ctx, tx, id, 0)
	}
	var overrides api.Overrides
	if err := json.Unmarshal(given.Overrides, &overrides); err != nil {
		return err
	}
	columns["version"], columns["label"] = 0, nil
	patch := api.TenantPatch{Name: &given.Name, Plan: &given.Plan, Weight: &given.Weight, Overrides: &overrides}
	_, err = caps.ChangeLimitsIn(ctx, tx, pgx.RowToStructByName[tenantRow], patchTenantSQL, columns,
		store.Args{"tenant_id": &id, "queue": nil, "plan": nil}, capsAddedByPatch(id, patch), audit.Event{})
	return err
}

// CopyPlan makes a cell's copy of a plan as the home cell has it. A plan is never deleted.
func CopyPlan(ctx context.Context, tx pgx.Tx, plan api.Plan) error {
	_, err := caps.ChangeLimitsIn(ctx, tx, pgx.RowToStructByName[planRow], putPlanSQL, store.Args{
		"name": plan.Name, "limits": string(store.JSON(plan.Limits)), "visibility": plan.VisibilityTimeoutMSMax, "label": nil, "version": 0,
	}, store.Args{"tenant_id": nil, "queue": nil, "plan": &plan.Name}, capsAddedByPlan(plan.Name, plan.Limits), audit.Event{})
	return err
}
