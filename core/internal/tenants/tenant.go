package tenants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Errors that a caller may act on, besides those of package store.
var (
	// ErrUnknownPlan: a tenant names a plan that does not exist.
	ErrUnknownPlan = errors.New("tenants: unknown plan")
	// ErrDeleted: the tenant is deleted, or is being deleted.
	ErrDeleted = errors.New("tenants: tenant deleted")
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
	// Label is null in a cell's copies.
	Label *string
	// Cell is null in the home cell, and in a cell's copies.
	Cell *string
	// DeletingAt and DeletedAt are when a deletion began and ended, Removed is what it has removed.
	DeletingAt *time.Time
	DeletedAt  *time.Time
	Removed    int64
}

const tenantColumns = `id, name, plan, weight, overrides, created_at, label, cell, deleting_at, deleted_at, removed`

func (r *tenantRow) wire() api.Tenant {
	t := api.Tenant{ID: r.ID.String(), Name: r.Name, Plan: r.Plan, Weight: int(r.Weight), Label: r.Label, CreatedAt: api.At(r.CreatedAt)}
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
INSERT INTO tenants (id, name, plan, weight, overrides, created_at, label, cell, version)
VALUES (@id, @name, @plan, @weight, '{}', statement_timestamp(), @label, @cell, @version)
-- the gateway draws the id, and may repeat a call whose answer it lost
ON CONFLICT (id) DO UPDATE SET id = EXCLUDED.id
RETURNING ` + tenantColumns

// Create creates a tenant. A repeat with the same id gives the first answer.
func (s *Tenants) Create(ctx context.Context, id tenant.ID, request api.TenantRequest) (api.Tenant, error) {
	return s.CreateIn(ctx, "", id, request)
}

// CreateIn is CreateTenant for a tenant whose jobs another cell has; "" is this one. A repeat
// leaves the tenant in its first cell.
func (s *Tenants) CreateIn(ctx context.Context, cell string, id tenant.ID, request api.TenantRequest) (api.Tenant, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	plan, weight := DefaultPlan, 1
	if request.Plan != nil {
		plan = *request.Plan
	}
	if request.Weight != nil {
		weight = *request.Weight
	}
	detail := map[string]any{"name": request.Name, "plan": plan, "weight": weight, "label": request.Label}
	if cell != "" {
		detail["cell"] = cell
	}
	var made []tenantRow
	err := s.InTx(ctx, func(tx pgx.Tx) error {
		version, err := store.NextVersion(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, createTenantSQL, store.Args{
			"id": id, "name": request.Name, "plan": plan, "weight": weight, "label": request.Label, "cell": store.NullIfEmpty(cell), "version": version,
		})
		if err != nil {
			return err
		}
		if made, err = pgx.CollectRows(rows, pgx.RowToStructByName[tenantRow]); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &id, Action: api.AuditTenantCreate, Object: id.String(), Detail: detail})
	})
	if err != nil {
		return api.Tenant{}, fmt.Errorf("tenants: create tenant: %w", unknownPlan(err))
	}
	return made[0].wire(), nil
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

// Get reads a tenant, a deleted one too.
func (s *Tenants) Get(ctx context.Context, id tenant.ID) (api.Tenant, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[tenantRow], getTenantSQL, store.Args{"id": id})
	if err != nil {
		return api.Tenant{}, fmt.Errorf("tenants: tenant: %w", store.NotApplied(err))
	}
	if len(rows) == 0 {
		return api.Tenant{}, store.ErrNotFound
	}
	return rows[0].wire(), nil
}

// List lists every tenant that is not deleted, newest id first; before is the last id of the previous page, or uuid.Max.
func (s *Tenants) List(ctx context.Context, before tenant.ID, size int) ([]api.Tenant, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[tenantRow], listTenantsSQL, store.Args{"before": before, "size": size})
	if err != nil {
		return nil, fmt.Errorf("tenants: list tenants: %w", store.NotApplied(err))
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
    overrides = COALESCE(@overrides::json, overrides), label = NULLIF(COALESCE(@label, label), ''), updated_at = statement_timestamp(), version = @version
WHERE id = @id
RETURNING ` + tenantColumns

// Patch changes the fields in the patch.
func (s *Tenants) Patch(ctx context.Context, id tenant.ID, patch api.TenantPatch) (api.Tenant, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	var overrides *string
	if patch.Overrides != nil {
		text := string(store.JSON(patch.Overrides))
		overrides = &text
	}
	rows, err := changeDirectory(ctx, s.Store, pgx.RowToStructByName[tenantRow], patchTenantSQL, store.Args{
		"id": id, "name": patch.Name, "plan": patch.Plan, "weight": patch.Weight, "overrides": overrides, "label": patch.Label,
	}, store.Args{"tenant_id": &id, "queue": nil, "plan": nil}, capsAddedByPatch(id, patch), audit.Event{
		Tenant: &id, Action: api.AuditTenantPatch, Object: id.String(), Detail: map[string]any{"patch": patch},
	})
	if err != nil {
		return api.Tenant{}, fmt.Errorf("tenants: patch tenant: %w", unknownPlan(err))
	}
	if len(rows) == 0 {
		return api.Tenant{}, store.ErrNotFound
	}
	return rows[0].wire(), nil
}
