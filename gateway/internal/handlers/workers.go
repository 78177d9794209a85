package handlers

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// RegisterWorker answers POST /v1/workers: registers a worker, updates it, or
// revives a DEAD one.
//
//	@Summary     Register a worker
//	@Description Makes a worker known, updates one that is, or revives one that is DEAD. Claiming registers too; this is for workers that want to say more of themselves, such as their tags.
//	@ID          registerWorker
//	@Tags        Workers
//	@Param       worker body api.WorkerRequest true "The worker."
//	@Success     200 {object} api.Worker "The worker as it is known now."
//	@x-access    "work platform"
//	@x-example-worker {"worker_id": "worker-1", "queues": ["default"], "tags": ["smtp"], "concurrency": 10, "metadata": {"host": "a1"}}
//	@Router      /v1/workers [post]
func (h *Handlers) RegisterWorker(ctx context.Context, c *Call, r api.WorkerRequest) (Response[api.Worker], error) {
	if fields := r.Validate(); len(fields) > 0 {
		return Response[api.Worker]{}, problem.Invalid(fields...)
	}
	return send[api.WorkerRequest, api.Worker](ctx, h, c, coreclient.Write(api.HopRegister), r)
}

// Heartbeat answers POST /v1/workers/{worker_id}/heartbeat: keeps the worker
// alive and extends its leases, each answered in the order sent. An unknown or
// DEAD worker gets 404 worker_unknown and has lost its leases.
//
//	@Summary     Keep a worker and its leases alive
//	@Description Extends each lease by its queue's visibility timeout, never past the job's start + `timeout_ms`, and answers in the order sent: `ok`; `cancel` (extended, but stop: cancellation was requested); `lost` (stop at once: the lease is no longer this worker's). Send it every third of `lease_ms`.
//	@Description
//	@Description 404 `worker_unknown`: the worker was taken for dead, and its leases were given to others. Register again.
//	@ID          heartbeat
//	@Tags        Workers
//	@Param       worker_id path string               true  "The worker's name."
//	@Param       leases    body api.HeartbeatRequest false "The leases that it holds; up to 1000."
//	@Success     200 {object} api.HeartbeatResponse "How each lease stands."
//	@x-access    "work platform"
//	@x-example-lease {"leases": [{"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "lease_token": "LEASE_TOKEN"}]}
//	@x-example-idle  {}
//	@Router      /v1/workers/{worker_id}/heartbeat [post]
func (h *Handlers) Heartbeat(ctx context.Context, c *Call, r api.HeartbeatRequest) (Response[api.HeartbeatResponse], error) {
	var nothing Response[api.HeartbeatResponse]
	if err := h.limiter.Charge(ctx, &c.Account, admission.Reports(len(r.Leases))); err != nil {
		return nothing, err
	}
	worker := c.Params["worker_id"]
	if !api.ValidLabel(worker) {
		return nothing, errNoSuchWorker
	}
	if fields := r.Validate(); len(fields) > 0 {
		return nothing, problem.Invalid(fields...)
	}
	statuses := make([]api.LeaseStatus, len(r.Leases))
	leases := []api.Lease{}
	var places []int // the index in statuses of each of leases
	for i, lease := range r.Leases {
		id, ok := request.UUID(lease.JobID)
		if !ok { // no job has this id, so no lease
			statuses[i] = api.LeaseStatus{JobID: lease.JobID, Status: api.LeaseLost}
			continue
		}
		leases, places = append(leases, api.Lease{JobID: id, LeaseToken: lease.LeaseToken}), append(places, i)
	}
	answer, err := send[api.HopHeartbeatRequest, api.HeartbeatResponse](ctx, h, c,
		coreclient.Repeatable(api.HopHeartbeat), api.HopHeartbeatRequest{WorkerID: worker, Leases: leases})
	if err != nil {
		return nothing, err
	}
	if got := len(answer.Value.Leases); got != len(leases) {
		return nothing, errMissingItems(got, len(leases))
	}
	for i, place := range places {
		statuses[place] = answer.Value.Leases[i]
	}
	answer.Value.Leases = statuses
	return answer, nil
}

// RemoveWorker answers DELETE /v1/workers/{worker_id}: 204. The worker says goodbye; a
// repeat, and a worker that is not known, are answered alike.
//
//	@Summary     Say goodbye
//	@Description The worker is gone from the list, and the leases that it holds go back at once, attempt included: other workers get their jobs with the same attempt number. What it reports of them afterwards is answered 409 `lease_lost`.
//	@Description
//	@Description Its waiting claims end empty. A claim on its way that leases jobs in the same moment may keep them until their leases run out; so end claims first. A repeat changes nothing, nor does a worker that is not known. A worker that claims or registers later is known again.
//	@ID          removeWorker
//	@Tags        Workers
//	@Param       worker_id path string true "The worker's name."
//	@Success     204 "The worker is gone, and holds no lease."
//	@x-access    "work platform"
//	@Router      /v1/workers/{worker_id} [delete]
func (h *Handlers) RemoveWorker(ctx context.Context, c *Call, _ None) (Response[None], error) {
	gone := Response[None]{Status: http.StatusNoContent}
	worker := c.Params["worker_id"]
	if !api.ValidLabel(worker) { // no worker has this name
		return gone, nil
	}
	_, err := send[api.HopLeaveRequest, None](ctx, h, c, coreclient.Repeatable(api.HopLeave), api.HopLeaveRequest{WorkerID: worker})
	return gone, err
}

// ListWorkers answers GET /v1/workers with a page: a tenant's own workers only, or
// for a platform key the platform's only.
//
//	@Summary     List workers
//	@Description The tenant's own workers, by name; for a platform key the platform's. STALE: no heartbeat for a while. DEAD: its leases were taken back.
//	@ID          listWorkers
//	@Tags        Workers
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.Worker] "A page of workers."
//	@x-access    "read platform"
//	@Router      /v1/workers [get]
func (h *Handlers) ListWorkers(ctx context.Context, c *Call, _ None) (Response[api.Page[api.Worker]], error) {
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return Response[api.Page[api.Worker]]{}, err
	}
	return send[api.HopPageRequest, api.Page[api.Worker]](ctx, h, c, coreclient.Read(api.HopWorkers), page)
}
