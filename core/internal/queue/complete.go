package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
)

// completeSQL moves completed jobs from the live table to the finished ones: one
// statement, so a job is always in exactly one of them. Moving measured 1.3 times
// faster than updating in place, and keeps the hot table small.
const completeSQL = `
WITH input AS MATERIALIZED (
  SELECT * FROM unnest(@ids::uuid[], @leases::uuid[], @results::text[], @hashes::bytea[]) AS i(id, lease_id, result, hash)
), ended AS (
  DELETE FROM jobs
  WHERE ` + heldSQL + `
  RETURNING ` + StableColumns + `, attempt, last_error, lease_id, counted
), ` + usage.LeaveCountsSQL + `
INSERT INTO finished_jobs (` + jobColumns + `, state, result, finished_at)
SELECT ` + StableColumns + `, attempt, last_error, ended.lease_id, input.hash, NULL,
       'completed', input.result::json, statement_timestamp()
FROM ended JOIN input ` + namedSQL + `
RETURNING id, tenant_id, lane_id, outcome_lease_id, attempt, epoch, created_at, started_at, finished_at`

// completeLoggedSQL also returns the attempt's fields for its log line and span.
const completeLoggedSQL = completeSQL + `, type, queue, correlation_id, traceparent`

type completed struct {
	ID             uuid.UUID
	TenantID       tenant.ID
	LaneID         directory.LaneID
	OutcomeLeaseID uuid.UUID
	Attempt        int32
	Epoch          int64
	CreatedAt      time.Time
	StartedAt      *time.Time
	FinishedAt     time.Time

	// Of completeLoggedSQL only.
	Type, Queue                string
	CorrelationID, Traceparent *string
}

func (c *completed) lease() job.Lease {
	return job.Lease{Tenant: c.TenantID, Job: c.ID, Epoch: c.Epoch, ID: c.OutcomeLeaseID}
}

// complete ends the jobs whose leases are still held, and gives those by lease.
func (s *Jobs) complete(ctx context.Context, endings []*Ending) (map[job.Lease]completed, error) {
	leases := make([]job.Lease, len(endings))
	results := make([]*string, len(endings))
	hashes := make([][]byte, len(endings))
	for i, ending := range endings {
		leases[i] = ending.Lease
		if ending.Result != nil {
			result := string(ending.Result)
			results[i] = &result
		}
		hash := ending.hash()
		hashes[i] = hash[:]
	}
	args := leaseArgs(leases)
	args["results"], args["hashes"] = results, hashes
	statement := completeSQL
	if s.logAttempts {
		statement = completeLoggedSQL
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByNameLax[completed], statement, args)
	if err != nil {
		return nil, fmt.Errorf("queue: complete: %w", err)
	}
	done := make(map[job.Lease]completed, len(rows))
	for _, row := range rows {
		done[row.lease()] = row
	}
	return done, nil
}

// completedOutcome is the outcome of a complete, first or repeated.
func completedOutcome(id uuid.UUID, attempt int32, epoch int64) *api.Outcome {
	return &api.Outcome{JobID: id.String(), State: api.StateCompleted, Attempt: int(attempt), Epoch: epoch}
}
