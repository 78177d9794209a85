package directory

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
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

// TenantCopy is what a cell needs of a tenant.
type TenantCopy struct {
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
func (c TenantCopy) same(other TenantCopy) bool {
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

// TenantPage gives a page of a cell's tenants by id, deleted ones too; "" is the home cell.
func (s *Directory) TenantPage(ctx context.Context, cell string, after tenant.ID, size int) ([]TenantCopy, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByName[TenantCopy], tenantPageSQL, store.Args{"cell": cell, "after": after, "size": size})
	if err != nil {
		return nil, fmt.Errorf("directory: tenants to copy: %w", store.NothingChanged(err))
	}
	return rows, nil
}

// Tenants gives those of some tenants that there are.
func (s *Directory) Tenants(ctx context.Context, ids []tenant.ID) ([]TenantCopy, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassSubmits), s.Store, pgx.RowToStructByName[TenantCopy], tenantsSQL, store.Args{"ids": ids})
	if err != nil {
		return nil, fmt.Errorf("directory: tenants to copy: %w", store.NothingChanged(err))
	}
	return rows, nil
}

// Differing gives those of a home's tenants whose copies here are not as they are there.
func (s *Directory) Differing(ctx context.Context, home []TenantCopy) ([]tenant.ID, error) {
	ids := make([]tenant.ID, len(home))
	for i := range home {
		ids[i] = home[i].ID
	}
	copies, err := s.Tenants(ctx, ids)
	if err != nil {
		return nil, err
	}
	here := make(map[tenant.ID]TenantCopy, len(copies))
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

// copying runs write under this cell's lock.
func (s *Directory) copying(ctx context.Context, what string, write func(context.Context, pgx.Tx) error) error {
	ctx = audit.WithoutActor(store.WithClass(ctx, store.ClassSubmits)) // the home has recorded it
	err := s.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": s.LockKey(store.LockDirectory, tenant.ID{})}); err != nil {
			return err
		}
		return write(ctx, tx)
	})
	if err != nil {
		return fmt.Errorf("directory: copy %s: %w", what, err)
	}
	return nil
}

const copyTenantSQL = `
INSERT INTO tenants (id, name, plan, weight, overrides, created_at)
VALUES (@id, @name, @plan, @weight, @overrides::json, @created_at)
ON CONFLICT (id) DO NOTHING`

// CopyTenants makes the copies of tenants as home gives them. Their plans must have been copied. As a
// change by the operator, a copy that adds a cap makes its counts unsettled.
func (s *Directory) CopyTenants(ctx context.Context, ids []tenant.ID, home func(context.Context, []tenant.ID) ([]TenantCopy, error)) error {
	return s.copying(ctx, "tenants", func(ctx context.Context, tx pgx.Tx) error {
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
}

func copyTenant(ctx context.Context, tx pgx.Tx, given *TenantCopy) error {
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
	_, err := changeLimitsIn(ctx, tx, pgx.RowToStructByName[tenantRow], patchTenantSQL, store.Args{
		"id": given.ID, "name": given.Name, "plan": given.Plan, "weight": given.Weight, "overrides": given.Overrides,
	}, store.Args{"tenant_id": &given.ID, "queue": nil, "plan": nil}, capsAddedByPatch(given.ID, patch), audit.Event{})
	return err
}

// CopyPlans makes the copies of all plans that are not as home gives them. A plan is never deleted.
func (s *Directory) CopyPlans(ctx context.Context, home func(context.Context) ([]api.Plan, error)) error {
	return s.copying(ctx, "plans", func(ctx context.Context, tx pgx.Tx) error {
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
			if _, err := changeLimitsIn(ctx, tx, pgx.RowToStructByName[planRow], putPlanSQL, store.Args{
				"name": plan.Name, "limits": string(store.JSON(plan.Limits)), "visibility": plan.VisibilityTimeoutMSMax,
			}, store.Args{"tenant_id": nil, "queue": nil, "plan": &plan.Name}, capsAddedByPlan(plan.Name, plan.Limits), audit.Event{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// KeyCopy is a key as one value: only PostgreSQL looks into the row.
type KeyCopy struct {
	KeyID string
	Row   string
}

const (
	// @cell is null in a cell, which has the keys of its own tenants only. Cells have no home tenants.
	keyPageSQL = `
SELECT k.key_id, to_jsonb(k)::text AS row
FROM api_keys AS k LEFT JOIN tenants AS t ON t.id = k.tenant_id
WHERE k.key_id > @after AND (@until::text IS NULL OR k.key_id <= @until)
  AND (@cell::text IS NULL OR k.tenant_id IS NULL OR t.cell = @cell)
ORDER BY k.key_id
LIMIT @size`
	forgetKeyCopiesSQL = `
DELETE FROM api_keys WHERE key_id > @after AND (@until::text IS NULL OR key_id <= @until) AND key_id <> ALL(@ids::text[])`
	// A tenant that is not copied yet gets its keys the next time.
	copyKeysSQL = `
WITH known AS MATERIALIZED (
  SELECT k.* FROM unnest(@rows::text[]) AS given (row), jsonb_populate_record(NULL::api_keys, given.row::jsonb) AS k
  WHERE k.tenant_id IS NULL OR EXISTS (SELECT 1 FROM tenants WHERE id = k.tenant_id)
)
INSERT INTO api_keys SELECT * FROM known
ON CONFLICT (key_id) DO UPDATE
SET kind = EXCLUDED.kind, tenant_id = EXCLUDED.tenant_id, user_id = EXCLUDED.user_id, scopes = EXCLUDED.scopes, secret_hmac = EXCLUDED.secret_hmac,
    expires_at = EXCLUDED.expires_at, revoked_at = EXCLUDED.revoked_at, sessions_ended = EXCLUDED.sessions_ended`
)

// KeyPage gives a page of keys by id, up to until where it is not empty: in the home cell those of
// the platform and of the tenants in a cell, with "" all that there are.
func (s *Directory) KeyPage(ctx context.Context, cell, after, until string, size int) ([]KeyCopy, error) {
	args := store.Args{"after": after, "until": nil, "cell": nil, "size": size}
	if cell != "" {
		args["cell"] = cell
	}
	if until != "" {
		args["until"] = until
	}
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByName[KeyCopy], keyPageSQL, args)
	if err != nil {
		return nil, fmt.Errorf("directory: keys to copy: %w", store.NothingChanged(err))
	}
	return rows, nil
}

// CopyKeys makes the copies of the keys between after and until ("" is the end) as home gives them,
// and forgets those that home has no more.
func (s *Directory) CopyKeys(ctx context.Context, after, until string, home func(context.Context) ([]KeyCopy, error)) error {
	return s.copying(ctx, "keys", func(ctx context.Context, tx pgx.Tx) error {
		given, err := home(ctx)
		if err != nil {
			return err
		}
		ids, rows := make([]string, len(given)), make([]string, len(given))
		for i := range given {
			ids[i], rows[i] = given[i].KeyID, given[i].Row
		}
		args := store.Args{"after": after, "until": nil, "ids": ids}
		if until != "" {
			args["until"] = until
		}
		if _, err := tx.Exec(ctx, forgetKeyCopiesSQL, args); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, copyKeysSQL, store.Args{"rows": rows})
		return err
	})
}
