package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Limits is this core's copy of plans and overrides, at most one refresh behind the tables.
type Limits struct {
	store *cell.Cell
	// missing asks for the tenants that this cell does not know; nil where it has them all.
	missing atomic.Pointer[func(context.Context) error]

	mu      sync.RWMutex
	plans   map[string]api.Limits
	tenants map[tenant.ID]tenants.Limits
	changed time.Time
	// checking are the tenants that have results checked.
	checking map[tenant.ID]bool
	// full is when all tenants were last read.
	full time.Time
}

// newLimits makes an empty cache; Refresh fills it.
func newLimits(store *cell.Cell) *Limits {
	return &Limits{store: store, plans: map[string]api.Limits{}, tenants: map[tenant.ID]tenants.Limits{}, checking: map[tenant.ID]bool{}}
}

// Refresh reads what has changed in the tables.
func (l *Limits) Refresh(ctx context.Context) error {
	l.mu.RLock()
	since := l.changed.Add(-lateChanges)
	begun, full := time.Now(), time.Since(l.full) > fullReadEvery
	l.mu.RUnlock()
	if full { // PostgreSQL's clock may have been set back since
		since = time.Time{}
	}
	plans, err := l.store.Tenants.Plans(ctx)
	if err != nil {
		return err
	}
	tenants, err := l.store.Tenants.LimitsSince(ctx, since)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, plan := range plans {
		l.plans[plan.Name] = plan.Limits
	}
	if full { // without those that another cell has by now
		clear(l.tenants)
		l.full = begun
	}
	l.add(tenants)
	return nil
}

// The caller holds the lock.
func (l *Limits) add(tenants []tenants.Limits) {
	for _, t := range tenants {
		l.tenants[t.Tenant] = t
		if delete(l.checking, t.Tenant); t.ChecksResults {
			l.checking[t.Tenant] = true
		}
		if t.UpdatedAt.After(l.changed) {
			l.changed = t.UpdatedAt
		}
	}
}

// Known says whether a tenant's limits are in the cache.
func (l *Limits) Known(owner tenant.ID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	known, ok := l.tenants[owner]
	_, planned := l.plans[known.Plan]
	return ok && planned
}

// Load loads a tenant's limits if they are not in the cache: the tenant or its plan may be newer
// than the last refresh. One that is being deleted is tenants.ErrDeleted, one of another cell
// store.ErrTenantMoved.
func (l *Limits) Load(ctx context.Context, owner tenant.ID) error {
	known, planned, err := l.find(ctx, owner)
	switch {
	case err != nil:
		return err
	case known.Deleting:
		return tenants.ErrDeleted
	case !planned:
		return l.Refresh(ctx)
	}
	return nil
}

// Present says whether this cell has the tenant: store.ErrTenantMoved where another one has it.
func (l *Limits) Present(ctx context.Context, owner tenant.ID) error {
	_, _, err := l.find(ctx, owner)
	return err
}

// FollowsHome says that the cell copies its tenants from the home cell; ask copies what has changed there.
func (l *Limits) FollowsHome(ask func(context.Context) error) { l.missing.Store(&ask) }

// find gives a tenant's limits, and whether its plan is known.
func (l *Limits) find(ctx context.Context, owner tenant.ID) (known tenants.Limits, planned bool, err error) {
	l.mu.RLock()
	known, ok := l.tenants[owner]
	_, planned = l.plans[known.Plan]
	l.mu.RUnlock()
	if !ok {
		if known, err = l.read(ctx, owner); err != nil {
			return known, false, err
		}
		l.mu.Lock()
		l.tenants[owner] = known // not add: its time of change must not hide those of others
		_, planned = l.plans[known.Plan]
		l.mu.Unlock()
	}
	if known.Elsewhere {
		return known, planned, fmt.Errorf("cache: tenant %s: %w", owner, store.ErrTenantMoved)
	}
	return known, planned, nil
}

func (l *Limits) read(ctx context.Context, owner tenant.ID) (tenants.Limits, error) {
	found, err := l.store.Tenants.LimitsOf(ctx, owner)
	if ask := l.missing.Load(); err == nil && len(found) == 0 && ask != nil {
		if err := (*ask)(ctx); err != nil {
			return tenants.Limits{}, errors.Join(store.ErrUnavailable, err)
		}
		if found, err = l.store.Tenants.LimitsOf(ctx, owner); err == nil && len(found) == 0 {
			err = fmt.Errorf("cache: tenant %s: %w", owner, store.ErrTenantMoved)
		}
	}
	switch {
	case err != nil:
		return tenants.Limits{}, err
	case len(found) == 0: // a tenant of tests; the caller is authenticated by a key
		return tenants.Limits{Tenant: owner, Plan: tenants.DefaultPlan}, nil
	}
	return found[0], nil
}

// For gives the limits in force for a tenant, and for one of its users where user
// is not empty.
func (l *Limits) For(owner tenant.ID, user string) api.Limits {
	l.mu.RLock()
	defer l.mu.RUnlock()
	known := l.tenants[owner]
	return known.Overrides.For(l.plans[known.Plan], user)
}

// SetWeights sets the tenants' weights.
func (l *Limits) SetWeights(demands []scheduler.Demand) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for i := range demands {
		demands[i].Weight = max(l.tenants[demands[i].Tenant].Weight, 1)
	}
}

// mayCapUsers says whether any user of the tenant can have a running cap.
func (l *Limits) mayCapUsers(owner tenant.ID) bool {
	return l.any(owner, func(limits *api.Limits) bool { return limits.UserMaxRunning != nil })
}

// MayCapActive says whether the tenant or any user of it has a cap on active jobs.
func (l *Limits) MayCapActive(owner tenant.ID) bool {
	return l.any(owner, func(limits *api.Limits) bool { return limits.MaxActive != nil || limits.UserMaxActive != nil })
}

func (l *Limits) any(owner tenant.ID, has func(*api.Limits) bool) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	known := l.tenants[owner]
	plan := l.plans[known.Plan]
	if limits := known.Overrides.For(plan, ""); has(&limits) {
		return true
	}
	for user := range known.Overrides.Users {
		if limits := known.Overrides.For(plan, user); has(&limits) {
			return true
		}
	}
	return false
}

// ChecksResults says whether the tenant has results of jobs checked; for tenant.Platform, whether any tenant has.
func (l *Limits) ChecksResults(owner tenant.ID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.checking) > 0 && (owner == tenant.Platform || l.checking[owner])
}

// TypesVersion is that of a tenant's types of jobs, 0 where it has none.
func (l *Limits) TypesVersion(owner tenant.ID) int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.tenants[owner].TypesVersion
}
