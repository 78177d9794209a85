package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// registerWorker registers a worker, updates it, or revives a DEAD one.
//
//	@x-problems  ["rate_limited"]
//	@x-example-worker {"worker_id": "worker-1", "queues": ["default"], "concurrency": 10}
func (s *Server) registerWorker(ctx context.Context, owner tenant.ID, item hop.Item[api.WorkerRequest]) (api.Worker, error) {
	// Validated by the gateway too: the table refuses some of what would be wrong.
	if fields := item.Request.Validate(); len(fields) > 0 {
		return api.Worker{}, problem.Invalid(fields...)
	}
	return s.Engine.Claims.Register(ctx, owner, item.Request)
}

// leave removes a worker and gives its leases back, attempt included. Its claims under way end empty. An
// unknown worker is no error.
//
//	@x-example-worker {"id": "worker-1"}
func (s *Server) leave(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (struct{}, error) {
	return struct{}{}, s.Engine.Claims.Leave(ctx, owner, item.Request.ID)
}

// listWorkers lists a tenant's workers, or the platform's.
func (s *Server) listWorkers(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.Worker], error) {
	of := listingOf(hop.ListWorkers.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return listed(s, of, byText, workerID, func(after string, limit int) ([]api.Worker, error) {
		return s.Store.Workers.List(ctx, owner, after, limit)
	})
}

func workerID(w api.Worker) string { return w.WorkerID }
