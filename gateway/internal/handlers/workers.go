package handlers

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// RegisterWorker registers a worker.
//
//	@Description Registers a worker, updates it, or revives one that is DEAD. A claim registers the worker too; use this to set tags, concurrency and metadata.
//	@Param       worker body api.WorkerRequest true "The worker."
//	@Success     200 {object} api.Worker "The worker as it is now."
//	@x-example-worker {"worker_id": "worker-1", "queues": ["default"], "tags": ["smtp"], "concurrency": 10, "metadata": {"host": "a1"}}
func (h *Handlers) RegisterWorker(ctx context.Context, c *call.Call, r api.WorkerRequest) (call.Passed, error) {
	if fields := r.Validate(); len(fields) > 0 {
		return call.Passed{}, problem.Invalid(fields...)
	}
	return call.Pass(ctx, h.core, c, hop.RegisterWorker, r)
}

// Heartbeat sends a heartbeat.
//
//	@ID          sendHeartbeat
//	@Description Extends each lease by its queue's visibility timeout, but not past the job's start + `timeout_ms`. The answer has a status for each lease, in the order sent: `ok`; `cancel` (extended, but stop: cancellation was requested); `lost` (stop at once: this worker no longer holds the lease). Send a heartbeat every third of `lease_ms`.
//	@Description
//	@Description A lease may carry `progress`, which is shown with the job, and `checkpoint`, JSON of at most 64 KiB that the job's next attempt gets with its claim. They are stored if the lease is held. What is absent or null stays as it is; the progress of an attempt ends with it.
//	@Description
//	@Description 404 `worker_unknown`: the worker was considered dead, and its leases were taken back. Register again.
//	@Param       leases    body api.HeartbeatRequest false "The worker's leases; up to 1000."
//	@Success     200 {object} api.HeartbeatResponse "The status of each lease."
//	@x-example-lease {"leases": [{"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "lease_token": "LEASE_TOKEN"}]}
//	@x-example-idle  {}
func (h *Handlers) Heartbeat(c *call.Call, r api.HeartbeatRequest) (hop.WorkerHeartbeat, admission.Cost, error) {
	cost := admission.Reports(len(r.Leases))
	worker, err := c.Worker()
	if err != nil {
		return hop.WorkerHeartbeat{}, cost, err
	}
	if fields := r.Validate(); len(fields) > 0 {
		return hop.WorkerHeartbeat{}, cost, problem.Invalid(fields...)
	}
	return hop.WorkerHeartbeat{WorkerID: worker, Leases: r.Leases}, cost, nil
}

// Extend has core extend the leases of a validated heartbeat.
func (h *Handlers) Extend(ctx context.Context, c *call.Call, r hop.WorkerHeartbeat) (nothing call.Response[api.HeartbeatResponse], err error) {
	statuses := make([]api.LeaseStatus, len(r.Leases))
	leases := []api.Lease{}
	var places []int // the index in statuses of each of leases
	for i, lease := range r.Leases {
		id, ok := request.UUID(lease.JobID)
		if !ok { // no job has this id, so no lease
			statuses[i] = api.LeaseStatus{JobID: lease.JobID, Status: api.LeaseLost}
			continue
		}
		leases, places = append(leases, lease.For(id)), append(places, i)
	}
	answer, err := call.Send(ctx, h.core, c, hop.Heartbeat, hop.WorkerHeartbeat{WorkerID: r.WorkerID, Leases: leases})
	if err != nil {
		return nothing, err
	}
	if got := len(answer.Value.Leases); got != len(leases) {
		return nothing, call.ErrMissingItems(got, len(leases))
	}
	for i, place := range places {
		statuses[place] = answer.Value.Leases[i]
	}
	answer.Value.Leases = statuses
	return answer, nil
}

// RemoveWorker removes a worker.
//
//	@Description For a worker that stops. It is removed from the list, and its leases are released at once without using an attempt: other workers get the jobs with the same attempt number. An outcome that it reports for them afterwards is 409 `lease_lost`.
//	@Description
//	@Description Its waiting claims end without jobs. A claim that leases jobs at the same moment may keep them until the leases expire, so end claims first. A repeat, or an unknown worker, changes nothing. A worker that claims or registers later is listed again.
//	@Success     204 "The worker is removed and holds no leases."
func (h *Handlers) RemoveWorker(ctx context.Context, c *call.Call, _ call.None) (call.Response[call.None], error) {
	gone := call.Response[call.None]{Status: http.StatusNoContent}
	worker, err := c.Worker()
	if err != nil {
		return gone, err
	}
	_, err = call.Send(ctx, h.core, c, hop.Leave, hop.ID{ID: worker})
	return gone, err
}

// ListWorkers lists workers.
//
//	@Description The tenant's workers by name; with a platform key, the platform's workers. STALE: no recent heartbeat. DEAD: its leases were taken back.
//	@Success     200 {object} api.Page[api.Worker] "A page of workers."
func (h *Handlers) ListWorkers(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Paged(ctx, h.core, c, hop.ListWorkers)
}
