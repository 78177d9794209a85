package operations

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Heartbeat extends a worker's leases. The worker first, then its leases, each answered in the order sent.
// What a lease reports is stored if it is held.
//
//	@ID          sendHeartbeat
//	@x-problems  ["worker_unknown"]
//	@x-example-lease {"worker_id": "worker-1", "leases": [{"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "lease_token": "LEASE_TOKEN"}]}
func (o *Operations) Heartbeat(ctx context.Context, owner tenant.ID, item hop.Item[hop.WorkerHeartbeat]) (api.HeartbeatResponse, error) {
	request := &item.Request
	// The worker first: a dead one must register before its leases count again.
	worker, err := o.Store.Workers.Beat(ctx, owner, request.WorkerID)
	if err != nil {
		return api.HeartbeatResponse{}, err
	}
	response := api.HeartbeatResponse{Status: worker.Status, Leases: make([]api.LeaseStatus, len(request.Leases))}
	var reports []jobs.Report
	var places []int
	for i, lease := range request.Leases {
		response.Leases[i] = api.LeaseStatus{JobID: lease.JobID, Status: api.LeaseLost}
		parsed, err := parseLease(owner, lease.JobID, lease.LeaseToken)
		if err != nil {
			continue // a lease that cannot exist is lost
		}
		reports, places = append(reports, jobs.Report{Lease: parsed, Progress: lease.Progress, Checkpoint: lease.Checkpoint}), append(places, i)
	}
	statuses, err := o.Engine.Claims.Heartbeat(ctx, reports)
	if err != nil {
		return api.HeartbeatResponse{}, err
	}
	for i, place := range places {
		response.Leases[place] = statuses[i]
	}
	return response, nil
}

// parseLease reads a lease as a worker names it.
func parseLease(owner tenant.ID, id, token string) (job.Lease, error) {
	parsed, err := jobID(id)
	if err != nil {
		return job.Lease{}, err
	}
	return jobs.ParseLease(owner, parsed, token)
}
