package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
)

const (
	// tenantPeriod is the period while tenants are being deleted; without any it is longNet.
	tenantPeriod = 5 * time.Second
	// tenantBatch bounds a transaction, tenantBatches a run for one tenant, tenantsPerRun the tenants.
	tenantBatch   = 1000
	tenantBatches = 200
	tenantsPerRun = 20
)

// Tenants removes the data of deleted tenants.
func (d Duties) Tenants() *Duty {
	var places map[tenant.ID]tenants.RemovalPlace
	return d.kicked(d.engine.Publisher.Deleted, "tenants", func(ctx context.Context) (_ time.Duration, err error) {
		places, err = d.removeTenants(ctx, places)
		if len(places) == 0 && err == nil {
			return longNet, nil
		}
		return jittered(tenantPeriod, 0.1), err
	})
}

// removeTenants removes some of the data of tenants that are being deleted, in bounded batches, each from its place on.
// It returns where the removals continue. A failure with one tenant does not stop the others.
func (d Duties) removeTenants(ctx context.Context, from map[tenant.ID]tenants.RemovalPlace) (map[tenant.ID]tenants.RemovalPlace, error) {
	ids, err := d.store.Tenants.Deleting(ctx, tenantsPerRun)
	if err != nil {
		return from, err
	}
	var problems []error
	places := make(map[tenant.ID]tenants.RemovalPlace, len(ids))
	for _, id := range ids {
		place := from[id]
		for range tenantBatches {
			n, next, err := d.store.Tenants.RemoveData(ctx, id, place, tenantBatch)
			place, problems = next, append(problems, err)
			if err != nil || n == 0 {
				break
			}
		}
		places[id] = place
	}
	return places, errors.Join(problems...)
}
