package tenants

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// How the directory is copied to the cells.
//
// The home cell has every tenant, plan and key. Another cell has copies of the plans, of the tenants
// whose jobs it has, and of the keys of these and of the platform. Nothing but the functions here
// writes copies. They take the cell's lock first and read the home's rows then: two cores that copy
// at the same time do it one after the other, and the second reads what is true by then. So a copy
// needs no version, and is right again after either side was restored from a backup.

// Copy is what a cell needs of a tenant.
type Copy struct {
	ID        tenant.ID
	Name      string
	Plan      string
	Weight    int
	Overrides string
	CreatedAt time.Time
	// Deleting: its deletion was asked for. The data then goes in each cell by itself.
	Deleting bool
	// Cell has the tenant's jobs, "" is the home cell. It is not copied.
	Cell string
}

// same says whether a copy is as the home has the tenant. Once both are being deleted, the rest is of
// no use.
func (c Copy) same(other Copy) bool {
	if c.Deleting && other.Deleting {
		return true
	}
	c.CreatedAt, c.Cell = other.CreatedAt, other.Cell
	return c == other
}

const (
	copiedColumns = `id, name, plan, weight, overrides::text AS overrides, created_at, deleting_at IS NOT NULL AS deleting, COALESCE(cell, '') AS cell`
	tenantPageSQL = `SELECT ` + copiedColumns + ` FROM tenants WHERE id > @after AND COALESCE(cell, '') = @cell ORDER BY id LIMIT @size`
	tenantsSQL    = `SELECT ` + copiedColumns + ` FROM tenants WHERE id = ANY(@ids::uuid[]) ORDER BY id`
)

// CopyPage gives a page of a cell's tenants by id, deleted ones too; "" is the home cell.
func (s *Tenants) CopyPage(ctx context.Context, cell string, after tenant.ID, size int) ([]Copy, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByName[Copy], tenantPageSQL, store.Args{"cell": cell, "after": after, "size": size})
	if err != nil {
		return nil, fmt.Errorf("tenants: tenants to copy: %w", store.NotApplied(err))
	}
	return rows, nil
}

// Copies gives those of some tenants that there are.
func (s *Tenants) Copies(ctx context.Context, ids []tenant.ID) ([]Copy, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassSubmits), s.Store, pgx.RowToStructByName[Copy], tenantsSQL, store.Args{"ids": ids})
	if err != nil {
		return nil, fmt.Errorf("tenants: tenants to copy: %w", store.NotApplied(err))
	}
	return rows, nil
}

// Differing gives those of a home's tenants whose copies here are not as they are there.
func (s *Tenants) Differing(ctx context.Context, home []Copy) ([]tenant.ID, error) {
	ids := make([]tenant.ID, len(home))
	for i := range home {
		ids[i] = home[i].ID
	}
	copies, err := s.Copies(ctx, ids)
	if err != nil {
		return nil, err
	}
	here := make(map[tenant.ID]Copy, len(copies))
	for _, one := range copies {
		here[one.ID] = one
	}
	var differing []tenant.ID
	for _, one := range home {
		if found, there := here[one.ID]; !there || !one.same(found) {
			differing = append(differing, one.ID)
		}
	}
	return differing, nil
}

const copyTenantSQL = `
INSERT INTO tenants (id, name, plan, weight, overrides, created_at)
VALUES (@id, @name, @plan, @weight, @overrides::json, @created_at)
ON CONFLICT (id) DO NOTHING`

// Copy makes the copies of tenants as home gives them. Their plans must have been copied. As a
// change by the operator, a copy that adds a cap makes its counts unsettled.
func (s *Tenants) Copy(ctx context.Context, ids []tenant.ID, home func(context.Context, []tenant.ID) ([]Copy, error)) error {
	err := audit.Copying(ctx, s.Store, func(ctx context.Context, tx pgx.Tx) error {
		given, err := home(ctx, ids)
		if err != nil {
			return err
		}
		for i := range given {
			if err := copyTenant(ctx, tx, &given[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("tenants: copy tenants: %w", err)
	}
	return nil
}

func copyTenant(ctx context.Context, tx pgx.Tx, given *Copy) error {
	if _, err := tx.Exec(ctx, copyTenantSQL, store.Args{
		"id": given.ID, "name": given.Name, "plan": given.Plan, "weight": given.Weight, "overrides": given.Overrides, "created_at": given.CreatedAt,
	}); err != nil {
		return err
	}
	if given.Deleting {
		return markDeleted(ctx, tx, given.ID)
	}
	var overrides api.Overrides
	if err := json.Unmarshal([]byte(given.Overrides), &overrides); err != nil {
		return err
	}
	patch := api.TenantPatch{Name: &given.Name, Plan: &given.Plan, Weight: &given.Weight, Overrides: &overrides}
	_, err := caps.ChangeLimitsIn(ctx, tx, pgx.RowToStructByName[tenantRow], patchTenantSQL, store.Args{
		"id": given.ID, "name": given.Name, "plan": given.Plan, "weight": given.Weight, "overrides": given.Overrides,
	}, store.Args{"tenant_id": &given.ID, "queue": nil, "plan": nil}, capsAddedByPatch(given.ID, patch), audit.Event{})
	return err
}

// CopyPlans makes the copies of all plans that are not as home gives them. A plan is never deleted.
func (s *Tenants) CopyPlans(ctx context.Context, home func(context.Context) ([]api.Plan, error)) error {
	err := audit.Copying(ctx, s.Store, func(ctx context.Context, tx pgx.Tx) error {
		given, err := home(ctx)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, plansSQL)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[planRow])
		if err != nil {
			return err
		}
		here := make(map[string]string, len(found))
		for i := range found {
			here[found[i].Name] = string(store.JSON(found[i].wire()))
		}
		for _, plan := range given {
			if here[plan.Name] == string(store.JSON(plan)) {
				continue
			}
			if _, err := caps.ChangeLimitsIn(ctx, tx, pgx.RowToStructByName[planRow], putPlanSQL, store.Args{
				"name": plan.Name, "limits": string(store.JSON(plan.Limits)), "visibility": plan.VisibilityTimeoutMSMax,
			}, store.Args{"tenant_id": nil, "queue": nil, "plan": &plan.Name}, capsAddedByPlan(plan.Name, plan.Limits), audit.Event{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("tenants: copy plans: %w", err)
	}
	return nil
}
