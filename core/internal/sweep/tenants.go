package sweep

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	tenantPeriod = 5 * time.Second
	// tenantBatch bounds a transaction, tenantBatches a run for one tenant, tenantsPerRun the tenants.
	tenantBatch   = 1000
	tenantBatches = 200
	tenantsPerRun = 20
)

// Tenants removes the data of deleted tenants.
type Tenants struct {
	store   *cell.Cell
	metrics *metrics.Jobs
	log     *slog.Logger
	// places are where the removals of tenants go on.
	places map[tenant.ID]directory.RemovalPlace
}

// NewTenants makes the duty.
func NewTenants(store *cell.Cell, m *metrics.Jobs, log *slog.Logger) *Tenants {
	return &Tenants{store: store, metrics: m, log: log}
}

// Run removes until ctx ends.
func (t *Tenants) Run(ctx context.Context) error {
	every(ctx, tenantPeriod, "tenants", t.metrics, t.log, t.RunOnce)
	return nil
}

// RunOnce removes some of the data of tenants that are being deleted, in bounded batches. A failure with one
// does not stop the others.
func (t *Tenants) RunOnce(ctx context.Context) error {
	ids, err := t.store.DeletingTenants(ctx, tenantsPerRun)
	if err != nil {
		return err
	}
	var problems []error
	places := make(map[tenant.ID]directory.RemovalPlace, len(ids))
	for _, id := range ids {
		place := t.places[id]
		for range tenantBatches {
			n, next, err := t.store.RemoveTenantData(ctx, id, place, tenantBatch)
			place, problems = next, append(problems, err)
			if err != nil || n == 0 {
				break
			}
		}
		places[id] = place
	}
	t.places = places
	return errors.Join(problems...)
}
