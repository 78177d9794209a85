package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
)

// DefaultPlan is the plan of a tenant without one in its request.
const DefaultPlan = "standard"

type tenantRow struct {
	ID        tenant.ID
	Name      string
	Plan      string
	Weight    int32
	Overrides []byte
	CreatedAt time.Time
	// Cell is null in the home cell, and in a cell's copies.
	Cell *string
	// DeletingAt and DeletedAt are when a deletion began and ended, Removed is what it has removed.
	DeletingAt *time.Time
	DeletedAt  *time.Time
	Removed    int64
}

const tenantColumns = `id, name, plan, weight, overrides, created_at, cell, deleting_at, deleted_at, removed`

func (r *tenantRow) wire() api.Tenant {
	t := api.Tenant{ID: r.ID.String(), Name: r.Name, Plan: r.Plan, Weight: int(r.Weight), CreatedAt: api.At(r.CreatedAt)}
	_ = json.Unmarshal(r.Overrides, &t.Overrides) // written from such a value by this package alone
	if r.Cell != nil {
		t.Cell = *r.Cell
	}
	if r.DeletingAt != nil {
		t.Deletion = &api.TenantDeletion{State: api.DeletionRunning, Removed: r.Removed, RequestedAt: api.At(*r.DeletingAt), EndedAt: api.AtOrNil(r.DeletedAt)}
		if r.DeletedAt != nil {
			t.Deletion.State = api.DeletionDone
		}
	}
	return t
}

const createTenantSQL = `
INSERT INTO tenants (id, name, plan, weight, overrides, created_at, cell)
VALUES (@id, @name, @plan, @weight, '{}', statement_timestamp(), @cell)
-- the gateway draws the id, and may repeat a call whose answer it lost
ON CONFLICT (id) DO UPDATE SET id = EXCLUDED.id
RETURNING ` + tenantColumns

// CreateTenant creates a tenant. A repeat with the same id gives the first answer.
func (s *Directory) CreateTenant(ctx context.Context, id tenant.ID, request api.TenantRequest) (api.Tenant, error) {
	return s.CreateTenantIn(ctx, "", id, request)
}

// CreateTenantIn is CreateTenant for a tenant whose jobs another cell has; "" is this one. A repeat
// leaves the tenant in its first cell.
func (s *Directory) CreateTenantIn(ctx context.Context, cell string, id tenant.ID, request api.TenantRequest) (api.Tenant, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	plan, weight := DefaultPlan, 1
	if request.Plan != nil {
		plan = *request.Plan
	}
	if request.Weight != nil {
		weight = *request.Weight
	}
	rows, err := audit.Recorded(ctx, s.Store, pgx.RowToStructByName[tenantRow], createTenantSQL, store.Args{
		"id": id, "name": request.Name, "plan": plan, "weight": weight, "cell": null.Text(cell),
	}, func([]tenantRow) *audit.Event {
		detail := map[string]any{"name": request.Name, "plan": plan, "weight": weight}
		if cell != "" {
			detail["cell"] = cell
		}
		return &audit.Event{Tenant: &id, Action: api.AuditTenantCreate, Object: id.String(), Detail: detail}
	})
	if err != nil {
		return api.Tenant{}, fmt.Errorf("directory: create tenant: %w", unknownPlan(err))
	}
	return rows[0].wire(), nil
}

// unknownPlan maps a foreign key violation to ErrUnknownPlan.
func unknownPlan(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "23503" {
		return ErrUnknownPlan
	}
	return err
}

const listTenantsSQL = `
SELECT ` + tenantColumns + ` FROM tenants WHERE id < @before AND deleted_at IS NULL ORDER BY id DESC LIMIT @size`

const getTenantSQL = `SELECT ` + tenantColumns + ` FROM tenants WHERE id = @id`

// GetTenant reads a tenant, a deleted one too.
func (s *Directory) GetTenant(ctx context.Context, id tenant.ID) (api.Tenant, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[tenantRow], getTenantSQL, store.Args{"id": id})
	if err != nil {
		return api.Tenant{}, fmt.Errorf("directory: tenant: %w", store.NothingChanged(err))
	}
	if len(rows) == 0 {
		return api.Tenant{}, store.ErrNotFound
	}
	return rows[0].wire(), nil
}

// ListTenants lists every tenant that is not deleted, newest id first; before is the last id of the previous page, or uuid.Max.
func (s *Directory) ListTenants(ctx context.Context, before tenant.ID, size int) ([]api.Tenant, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[tenantRow], listTenantsSQL, store.Args{"before": before, "size": size})
	if err != nil {
		return nil, fmt.Errorf("directory: list tenants: %w", store.NothingChanged(err))
	}
	tenants := make([]api.Tenant, len(rows))
	for i := range rows {
		tenants[i] = rows[i].wire()
	}
	return tenants, nil
}

const patchTenantSQL = `
UPDATE tenants
SET name = COALESCE(@name, name), plan = COALESCE(@plan, plan), weight = COALESCE(@weight, weight),
    overrides = COALESCE(@overrides::json, overrides), updated_at = statement_timestamp()
WHERE id = @id
RETURNING ` + tenantColumns

// PatchTenant changes the fields in the patch.
func (s *Directory) PatchTenant(ctx context.Context, id tenant.ID, patch api.TenantPatch) (api.Tenant, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	var overrides *string
	if patch.Overrides != nil {
		text := string(store.JSON(patch.Overrides))
		overrides = &text
	}
	rows, err := changeLimits(ctx, s, pgx.RowToStructByName[tenantRow], patchTenantSQL, store.Args{
		"id": id, "name": patch.Name, "plan": patch.Plan, "weight": patch.Weight, "overrides": overrides,
	}, store.Args{"tenant_id": &id, "queue": nil, "plan": nil}, capsAddedByPatch(id, patch), audit.Event{
		Tenant: &id, Action: api.AuditTenantPatch, Object: id.String(), Detail: map[string]any{"patch": patch},
	})
	if err != nil {
		return api.Tenant{}, fmt.Errorf("directory: patch tenant: %w", unknownPlan(err))
	}
	if len(rows) == 0 {
		return api.Tenant{}, store.ErrNotFound
	}
	return rows[0].wire(), nil
}

// changeLimits changes limits, and in the same commit makes the counts unsettled for which it adds
// a cap, among those in scope. It records the event if a row changed.
func changeLimits[T any](
	ctx context.Context, s *Directory, row pgx.RowToFunc[T], sql string, args, scope store.Args, brings addedCaps, done audit.Event,
) (changed []T, err error) {
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		changed, err = changeLimitsIn(ctx, tx, row, sql, args, scope, brings, done)
		return err
	})
	return changed, err
}

func changeLimitsIn[T any](
	ctx context.Context, tx pgx.Tx, row pgx.RowToFunc[T], sql string, args, scope store.Args, brings addedCaps, done audit.Event,
) ([]T, error) {
	counters, err := brings(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	changed, err := pgx.CollectRows(rows, row)
	if err != nil {
		return nil, err
	}
	if rows.CommandTag().RowsAffected() > 0 {
		if err := audit.Record(ctx, tx, done); err != nil {
			return nil, err
		}
	}
	if counters == 0 {
		return changed, nil
	}
	scope["counters"] = counters.Bits()
	_, err = tx.Exec(ctx, usage.UnsettleSQL, scope)
	return changed, err
}

type planRow struct {
	Name                   string
	Limits                 []byte
	VisibilityTimeoutMsMax *int64
}

func (r *planRow) wire() api.Plan {
	plan := api.Plan{Name: r.Name, VisibilityTimeoutMSMax: r.VisibilityTimeoutMsMax}
	_ = json.Unmarshal(r.Limits, &plan.Limits) // written from such a value by this package alone
	return plan
}

const getPlanSQL = `SELECT name, limits, visibility_timeout_ms_max FROM plans WHERE name = @name`

// GetPlan reads a plan.
func (s *Directory) GetPlan(ctx context.Context, name string) (api.Plan, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[planRow], getPlanSQL, store.Args{"name": name})
	if err != nil {
		return api.Plan{}, fmt.Errorf("directory: plan: %w", store.NothingChanged(err))
	}
	if len(rows) == 0 {
		return api.Plan{}, store.ErrNotFound
	}
	return rows[0].wire(), nil
}

const listPlansSQL = `
SELECT name, limits, visibility_timeout_ms_max FROM plans WHERE name > @after ORDER BY name LIMIT @size`

// ListPlans lists the plans by name; after is the last name of the previous page.
func (s *Directory) ListPlans(ctx context.Context, after string, size int) ([]api.Plan, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[planRow], listPlansSQL, store.Args{"after": after, "size": size})
	if err != nil {
		return nil, fmt.Errorf("directory: list plans: %w", store.NothingChanged(err))
	}
	plans := make([]api.Plan, len(rows))
	for i := range rows {
		plans[i] = rows[i].wire()
	}
	return plans, nil
}

const putPlanSQL = `
INSERT INTO plans (name, limits, visibility_timeout_ms_max, updated_at) VALUES (@name, @limits::json, @visibility, statement_timestamp())
ON CONFLICT (name) DO UPDATE
SET limits = EXCLUDED.limits, visibility_timeout_ms_max = EXCLUDED.visibility_timeout_ms_max,
    updated_at = EXCLUDED.updated_at
RETURNING name, limits, visibility_timeout_ms_max`

// PutPlan creates or replaces a plan.
func (s *Directory) PutPlan(ctx context.Context, name string, request api.PlanRequest) (api.Plan, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	rows, err := changeLimits(ctx, s, pgx.RowToStructByName[planRow], putPlanSQL, store.Args{
		"name": name, "limits": string(store.JSON(request.Limits)), "visibility": request.VisibilityTimeoutMSMax,
	}, store.Args{"tenant_id": nil, "queue": nil, "plan": &name}, capsAddedByPlan(name, request.Limits), audit.Event{
		Action: api.AuditPlanPut, Object: name, Detail: map[string]any{"limits": request.Limits, "visibility_timeout_ms_max": request.VisibilityTimeoutMSMax},
	})
	if err != nil {
		return api.Plan{}, fmt.Errorf("directory: put plan: %w", err)
	}
	return rows[0].wire(), nil
}
