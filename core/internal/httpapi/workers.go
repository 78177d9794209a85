package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// registerWorker registers a worker.
//
//	@Summary     Register workers
//	@Description Makes a worker known, updates it, or revives a DEAD one.
//	@ID          registrations
//	@Tags        Workers
//	@Param       envelope body api.Envelope[api.WorkerRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Worker] "An answer for each item."
//	@x-access    "worker"
//	@x-problems  ["rate_limited"]
//	@x-example-worker {"worker_id": "worker-1", "queues": ["default"], "concurrency": 10}
//	@Router      /internal/v1/registrations [post]
func (s *Server) registerWorker(ctx context.Context, owner tenant.ID, item api.Item[api.WorkerRequest]) (api.Worker, error) {
	// Validated by the gateway too: the table refuses some of what would be wrong.
	if fields := item.Request.Validate(); len(fields) > 0 {
		return api.Worker{}, problem.Invalid(fields...)
	}
	return s.Dispatcher.Register(ctx, owner, item.Request)
}

// leave removes workers and gives their leases back.
//
//	@Summary     Remove workers
//	@Description Removes a worker and gives its leases back, attempt included; its claims under way end empty. An unknown worker is no error.
//	@ID          departures
//	@Tags        Workers
//	@Param       envelope body api.Envelope[api.HopLeaveRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[any] "An answer for each item."
//	@x-access    "worker"
//	@x-example-worker {"worker_id": "worker-1"}
//	@Router      /internal/v1/departures [post]
func (s *Server) leave(ctx context.Context, owner tenant.ID, item api.Item[api.HopLeaveRequest]) (struct{}, error) {
	return struct{}{}, s.Dispatcher.Leave(ctx, owner, item.Request.WorkerID)
}

// listWorkers reads a page of a tenant's workers, or of the platform's.
//
//	@Summary     List workers
//	@Description A page of the tenant's workers, or of the platform's.
//	@ID          workerLists
//	@Tags        Workers
//	@Param       envelope body api.Envelope[api.HopPageRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Worker]] "An answer for each item."
//	@x-access    "worker"
//	@x-example-first {"page_size": 50}
//	@Router      /internal/v1/worker-lists [post]
func (s *Server) listWorkers(ctx context.Context, item api.Item[api.HopPageRequest]) (api.Page[api.Worker], error) {
	owner := tenant.Platform
	if item.Principal.Kind != api.PrincipalPlatform {
		var err error
		if owner, err = ofManager(item.Principal); err != nil {
			return api.Page[api.Worker]{}, err
		}
	}
	of := listingOf(api.HopWorkers, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return listed(s, of, byText, workerID, func(after string, limit int) ([]api.Worker, error) {
		return s.Store.ListWorkers(ctx, owner, after, limit)
	})
}

func workerID(w api.Worker) string { return w.WorkerID }
