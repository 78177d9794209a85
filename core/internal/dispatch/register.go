package dispatch

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Register makes or updates a worker.
func (d *Dispatcher) Register(ctx context.Context, owner tenant.ID, request api.WorkerRequest) (api.Worker, error) {
	worker, joined, err := d.store.Workers.Register(ctx, owner, request)
	if err != nil {
		return api.Worker{}, err
	}
	if joined {
		d.metrics.Workers.Registered.Inc()
	}
	d.workers.Forget(cache.WorkerKey{Owner: owner, ID: request.WorkerID})
	d.served.Seen(owner, request.Queues, request.Types)
	if joined { // it was unknown, or dead and has lost its leases
		return worker.Wire(0), nil
	}
	leases, err := d.leases.Of(ctx, d.store, cache.WorkerKey{Owner: owner, ID: request.WorkerID})
	if err != nil {
		return api.Worker{}, err
	}
	return worker.Wire(leases), nil
}

// BeatWorker records a worker's heartbeat; directory.ErrWorkerUnknown if it must register.
func (d *Dispatcher) BeatWorker(ctx context.Context, owner tenant.ID, workerID string) (string, error) {
	worker, err := d.store.Workers.Beat(ctx, owner, workerID)
	return worker.Status, err
}
