package tenants

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Limits are the inputs of a tenant's limits.
type Limits struct {
	Tenant tenant.ID
	Plan   string
	// Weight is the tenant's weight in deficit round robin.
	Weight    int
	Overrides api.Overrides
	UpdatedAt time.Time
	// Deleting: nothing of the tenant is accepted any more.
	Deleting bool
	// TypesVersion is that of its types, see package jobtypes; ChecksResults says that one has its results checked.
	TypesVersion  int64
	ChecksResults bool
	// Elsewhere: another cell has the tenant's jobs, and this one must not store any.
	Elsewhere bool
}

const tenantLimitsSQL = `
SELECT id, plan, weight, overrides, updated_at, deleting_at IS NOT NULL, types_version, checks_results, cell IS NOT NULL
FROM tenants WHERE updated_at > @since`

const tenantLimitsOfSQL = `
SELECT id, plan, weight, overrides, updated_at, deleting_at IS NOT NULL, types_version, checks_results, cell IS NOT NULL
FROM tenants WHERE id = @id`

// LimitsSince gives every tenant's plan and overrides that changed after since.
func (s *Tenants) LimitsSince(ctx context.Context, since time.Time) ([]Limits, error) {
	return s.tenantLimits(ctx, tenantLimitsSQL, store.Args{"since": since})
}

// LimitsOf gives one tenant's; none for an unknown one.
func (s *Tenants) LimitsOf(ctx context.Context, owner tenant.ID) ([]Limits, error) {
	return s.tenantLimits(ctx, tenantLimitsOfSQL, store.Args{"id": owner})
}

func (s *Tenants) tenantLimits(ctx context.Context, sql string, args store.Args) ([]Limits, error) {
	scan := func(row pgx.CollectableRow) (Limits, error) {
		var limits Limits
		var overrides []byte
		err := row.Scan(&limits.Tenant, &limits.Plan, &limits.Weight, &overrides, &limits.UpdatedAt, &limits.Deleting,
			&limits.TypesVersion, &limits.ChecksResults, &limits.Elsewhere)
		_ = json.Unmarshal(overrides, &limits.Overrides) // written by Patch alone
		return limits, err
	}
	limits, err := store.Query(ctx, s.Store, scan, sql, args)
	if err != nil {
		return nil, fmt.Errorf("tenants: limits: %w", store.NotApplied(err))
	}
	return limits, nil
}

const plansSQL = `SELECT ` + planColumns + ` FROM plans`

// Plans gives all plans: there are few.
func (s *Tenants) Plans(ctx context.Context) ([]api.Plan, error) {
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[planRow], plansSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("tenants: plans: %w", store.NotApplied(err))
	}
	plans := make([]api.Plan, len(rows))
	for i := range rows {
		plans[i] = rows[i].wire()
	}
	return plans, nil
}

// CapUse gives the use of each of a tenant's caps, on the tenant or on one of its users, at this
// moment.
func (s *Tenants) CapUse(ctx context.Context, list []caps.Cap) ([]caps.FullCap, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	if len(list) == 0 {
		return nil, nil
	}
	conn, err := s.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	keys := caps.KeysOf(list)
	counts, err := caps.ReadUsage(ctx, conn, keys)
	if err != nil {
		return nil, fmt.Errorf("tenants: cap use: %w", store.NotApplied(store.Classify(err)))
	}
	if err := counts.Recount(ctx, conn, func(int64) bool { return true }, list); err != nil {
		return nil, fmt.Errorf("tenants: cap use: %w", store.NotApplied(store.Classify(err)))
	}
	used := make([]caps.FullCap, len(list))
	for i, c := range list {
		used[i] = caps.FullCap{Cap: c, Used: counts.Used(c.CountKey)}
	}
	return used, nil
}
