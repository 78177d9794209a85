package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func (s *Server) workerRoutes() []endpoint {
	return []endpoint{
		handle(s, route{method: "POST", path: "/v1/workers", access: forWorkers(), body: body(api.MaxBody)}, s.registerWorker),
		handle(s, route{
			method: "POST", path: "/v1/workers/{worker_id}/heartbeat", access: forWorkers(), body: optionalBody(api.MaxBatchBody), cost: costReports,
		}, s.heartbeat),
		handle(s, route{method: "GET", path: "/v1/workers", access: aboutWorkers(), query: pageParams()}, s.listWorkers),
	}
}

// registerWorker answers POST /v1/workers: registers a worker, updates it, or
// revives a DEAD one.
func (s *Server) registerWorker(ctx context.Context, c *call, r api.WorkerRequest) (reply[api.Worker], error) {
	if fields := r.Validate(); len(fields) > 0 {
		return reply[api.Worker]{}, problem.Invalid(fields...)
	}
	return send[api.WorkerRequest, api.Worker](ctx, s, c, coreclient.Write(api.HopRegister), r)
}

// heartbeat answers POST /v1/workers/{worker_id}/heartbeat: keeps the worker
// alive and extends its leases, each answered in the order sent. An unknown or
// DEAD worker gets 404 worker_unknown and has lost its leases.
func (s *Server) heartbeat(ctx context.Context, c *call, r api.HeartbeatRequest) (reply[api.HeartbeatResponse], error) {
	var nothing reply[api.HeartbeatResponse]
	if err := s.charge(ctx, c, work{reports: len(r.Leases)}); err != nil {
		return nothing, err
	}
	worker := c.params["worker_id"]
	if !api.ValidLabel(worker) {
		return nothing, errNoSuchWorker
	}
	if fields := r.Validate(); len(fields) > 0 {
		return nothing, problem.Invalid(fields...)
	}
	statuses := make([]api.LeaseStatus, len(r.Leases))
	leases := []api.Lease{}
	var places []int // where in statuses each of leases belongs
	for i, lease := range r.Leases {
		id, ok := canonicalUUID(lease.JobID)
		if !ok { // nobody can hold a lease of it
			statuses[i] = api.LeaseStatus{JobID: lease.JobID, Status: api.LeaseLost}
			continue
		}
		leases, places = append(leases, api.Lease{JobID: id, LeaseToken: lease.LeaseToken}), append(places, i)
	}
	answer, err := send[api.HopHeartbeatRequest, api.HeartbeatResponse](ctx, s, c,
		coreclient.Repeatable(api.HopHeartbeat), api.HopHeartbeatRequest{WorkerID: worker, Leases: leases})
	if err != nil {
		return nothing, err
	}
	if got := len(answer.value.Leases); got != len(leases) {
		return nothing, errShort(got, len(leases))
	}
	for i, place := range places {
		statuses[place] = answer.value.Leases[i]
	}
	answer.value.Leases = statuses
	return answer, nil
}

// listWorkers answers GET /v1/workers with a page: a tenant's own workers, or for
// a platform key the platform's. Nobody sees the other's.
func (s *Server) listWorkers(ctx context.Context, c *call, _ none) (reply[api.Page[api.Worker]], error) {
	page, err := readPage(c.query)
	if err != nil {
		return reply[api.Page[api.Worker]]{}, err
	}
	return send[api.HopPageRequest, api.Page[api.Worker]](ctx, s, c, coreclient.Read(api.HopWorkers), page)
}
