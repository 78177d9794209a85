package claims

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Workers are the workers that claim here: they register, and leave.
type Workers struct {
	store     *cell.Cell
	cached    *cache.Memory
	outcomes  *Outcomes
	publisher *publish.Publisher
	metrics   *metrics.Workers
	// known are those seen lately, callers those with claims under way.
	known   *cache.Workers
	callers callers
	leases  cache.Leases
}

// Register makes or updates a worker.
func (w *Workers) Register(ctx context.Context, owner tenant.ID, request api.WorkerRequest) (api.Worker, error) {
	worker, joined, err := w.store.Workers.Register(ctx, owner, request)
	if err != nil {
		return api.Worker{}, err
	}
	if joined {
		w.metrics.Registered.Inc()
	}
	w.known.Forget(cache.WorkerKey{Owner: owner, ID: request.WorkerID})
	w.cached.Served.Seen(owner, request.Queues, request.Types)
	if joined { // it was unknown, or dead and has lost its leases
		return worker.Wire(0), nil
	}
	leases, err := w.leases.Of(ctx, w.store, cache.WorkerKey{Owner: owner, ID: request.WorkerID})
	if err != nil {
		return api.Worker{}, err
	}
	return worker.Wire(leases), nil
}
