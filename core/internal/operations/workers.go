package operations

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// RegisterWorker registers a worker, updates it, or revives a DEAD one.
//
//	@x-problems  ["rate_limited"]
//	@x-example-worker {"worker_id": "worker-1", "queues": ["default"], "concurrency": 10}
func (o *Operations) RegisterWorker(ctx context.Context, owner tenant.ID, item hop.Item[api.WorkerRequest]) (api.Worker, error) {
	// Validated by the gateway too: the table refuses some of what would be wrong.
	if fields := item.Request.Validate(); len(fields) > 0 {
		return api.Worker{}, problem.Invalid(fields...)
	}
	return o.Engine.Claims.Register(ctx, owner, item.Request)
}

// Leave removes a worker and gives its leases back, attempt included. Its claims under way end empty. An
// unknown worker is no error.
//
//	@x-example-worker {"id": "worker-1"}
func (o *Operations) Leave(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (struct{}, error) {
	return struct{}{}, o.Engine.Claims.Leave(ctx, owner, item.Request.ID)
}

// ListWorkers lists a tenant's workers, or the platform's.
func (o *Operations) ListWorkers(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.Worker], error) {
	of := pages.ListingOf(hop.ListWorkers.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return pages.Listed(o.Pages, of, pages.ByText, workerID, func(after string, limit int) ([]api.Worker, error) {
		return o.Store.Workers.List(ctx, owner, after, limit)
	})
}

func workerID(w api.Worker) string { return w.WorkerID }
