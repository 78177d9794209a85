package dispatch

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// ChecksResults says whether the tenant has results of jobs checked; for tenant.Platform, whether any tenant has.
func (d *Dispatcher) ChecksResults(owner tenant.ID) bool { return d.limits.ChecksResults(owner) }

// TypesVersion is that of a tenant's types of jobs, 0 where it has none.
func (d *Dispatcher) TypesVersion(owner tenant.ID) int64 { return d.limits.TypesVersion(owner) }

// TypesVersionOf is TypesVersion, read from the table where this core does not know the tenant yet.
func (d *Dispatcher) TypesVersionOf(ctx context.Context, owner tenant.ID) (int64, error) {
	if d.limits.Known(owner) {
		return d.limits.TypesVersion(owner), nil
	}
	found, err := d.store.Tenants.LimitsOf(ctx, owner)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0].TypesVersion, nil
}

// TypesChanged makes a change of a tenant's types known here, and tells other cores. They read it within
// refreshEvery even if they are not told.
func (d *Dispatcher) TypesChanged(ctx context.Context) error {
	d.publishSettings()
	return d.limits.Refresh(ctx)
}
