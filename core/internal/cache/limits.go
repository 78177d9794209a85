package cache

import (
	"context"
	"sync"
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
	l.add(tenants)
	if full {
		l.full = begun
	}
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
// store.ErrUnavailable.
func (l *Limits) Load(ctx context.Context, owner tenant.ID) error {
	l.mu.RLock()
	known, ok := l.tenants[owner]
	_, planned := l.plans[known.Plan]
	l.mu.RUnlock()
	if !ok {
		found, err := l.store.Tenants.LimitsOf(ctx, owner)
		if err != nil {
			return err
		}
		if len(found) == 0 { // a tenant of tests; the caller is authenticated by a key
			found = []tenants.Limits{{Tenant: owner, Plan: tenants.DefaultPlan}}
		}
		l.mu.Lock()
		known = found[0]
		l.tenants[owner] = known // not add: its time of change must not hide those of others
		_, planned = l.plans[known.Plan]
		l.mu.Unlock()
	}
	if known.Deleting {
		return tenants.ErrDeleted
	}
	if known.Elsewhere { // this core was started without FORGEQUEUE_CELLS, before there were other cells
		return store.ErrUnavailable
	}
	if !planned {
		return l.Refresh(ctx)
	}
	return nil
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
