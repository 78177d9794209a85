package tenants

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

type planRow struct {
	Name                   string
	Limits                 []byte
	VisibilityTimeoutMsMax *int64
	Label                  *string
}

// PlanFrom is the plan of these columns, which a cell's copy has.
func PlanFrom(name string, limits []byte, visibility *int64) api.Plan {
	return (&planRow{Name: name, Limits: limits, VisibilityTimeoutMsMax: visibility}).wire()
}

func (r *planRow) wire() api.Plan {
	plan := api.Plan{Name: r.Name, VisibilityTimeoutMSMax: r.VisibilityTimeoutMsMax, Label: r.Label}
	_ = json.Unmarshal(r.Limits, &plan.Limits) // written from such a value by this package alone
	return plan
}

const planColumns = `name, limits, visibility_timeout_ms_max, label`

const getPlanSQL = `SELECT ` + planColumns + ` FROM plans WHERE name = @name`

// GetPlan reads a plan.
func (s *Tenants) GetPlan(ctx context.Context, name string) (api.Plan, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[planRow], getPlanSQL, store.Args{"name": name})
	if err != nil {
		return api.Plan{}, fmt.Errorf("tenants: plan: %w", store.NotApplied(err))
	}
	if len(rows) == 0 {
		return api.Plan{}, store.ErrNotFound
	}
	return rows[0].wire(), nil
}

const listPlansSQL = `
SELECT ` + planColumns + ` FROM plans WHERE name > @after ORDER BY name LIMIT @size`

// ListPlans lists the plans by name; after is the last name of the previous page.
func (s *Tenants) ListPlans(ctx context.Context, after string, size int) ([]api.Plan, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[planRow], listPlansSQL, store.Args{"after": after, "size": size})
	if err != nil {
		return nil, fmt.Errorf("tenants: list plans: %w", store.NotApplied(err))
	}
	plans := make([]api.Plan, len(rows))
	for i := range rows {
		plans[i] = rows[i].wire()
	}
	return plans, nil
}

const putPlanSQL = `
INSERT INTO plans (name, limits, visibility_timeout_ms_max, label, updated_at, version) VALUES (@name, @limits::json, @visibility, @label, statement_timestamp(), @version)
ON CONFLICT (name) DO UPDATE
SET limits = EXCLUDED.limits, visibility_timeout_ms_max = EXCLUDED.visibility_timeout_ms_max, label = EXCLUDED.label,
    updated_at = EXCLUDED.updated_at, version = EXCLUDED.version
RETURNING ` + planColumns

// PutPlan creates or replaces a plan.
func (s *Tenants) PutPlan(ctx context.Context, name string, request api.PlanRequest) (api.Plan, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	rows, err := changeDirectory(ctx, s.Store, pgx.RowToStructByName[planRow], putPlanSQL, store.Args{
		"name": name, "limits": string(store.JSON(request.Limits)), "visibility": request.VisibilityTimeoutMSMax, "label": request.Label,
	}, store.Args{"tenant_id": nil, "queue": nil, "plan": &name}, capsAddedByPlan(name, request.Limits), audit.Event{
		Action: api.AuditPlanPut, Object: name, Detail: map[string]any{"limits": request.Limits, "visibility_timeout_ms_max": request.VisibilityTimeoutMSMax, "label": request.Label},
	})
	if err != nil {
		return api.Plan{}, fmt.Errorf("tenants: put plan: %w", err)
	}
	return rows[0].wire(), nil
}

// changeDirectory is caps.ChangeLimits with the directory's next version in the arguments.
func changeDirectory[T any](
	ctx context.Context, s *store.Store, row pgx.RowToFunc[T], sql string, args, scope store.Args, brings caps.AddedCaps, done audit.Event,
) (changed []T, err error) {
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		if args["version"], err = store.NextVersion(ctx, tx); err != nil {
			return err
		}
		changed, err = caps.ChangeLimitsIn(ctx, tx, row, sql, args, scope, brings, done)
		return err
	})
	return changed, err
}
