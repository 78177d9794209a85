package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// heartbeatSQL extends leases by the visibility timeout of the claim, but never past the job's
// start + timeout_ms. A reaped row has no lease and is not extended. No heartbeat is a HOT update: why the
// lease is in the job's row nevertheless is decision 48.
const heartbeatSQL = `
WITH held AS (
UPDATE jobs
SET ` + extendSQL + `
WHERE ` + heldSQL + beatSQL

const (
	extendSQL = `lease_expires_at = LEAST((statement_timestamp() AT TIME ZONE 'UTC' + visibility_timeout_ms * interval '1 millisecond') AT TIME ZONE 'UTC',
                             (started_at AT TIME ZONE 'UTC' + timeout_ms * interval '1 millisecond') AT TIME ZONE 'UTC')`
	beatSQL = `
RETURNING id, tenant_id, epoch, lease_id, lease_expires_at, cancel_requested
)
SELECT id, tenant_id, epoch, lease_id, lease_expires_at, cancel_requested, statement_timestamp() AS now FROM held`
)

// Beat is a lease that is still held.
type Beat struct {
	ID              uuid.UUID
	TenantID        tenant.ID
	Epoch           int64
	LeaseID         uuid.UUID
	LeaseExpiresAt  time.Time
	CancelRequested bool
	// Now is PostgreSQL's clock at the extension.
	Now time.Time
}

func (b Beat) lease() job.Lease {
	return job.Lease{Tenant: b.TenantID, Job: b.ID, Epoch: b.Epoch, ID: b.LeaseID}
}

func scanBeat(row pgx.CollectableRow) (b Beat, err error) {
	err = row.Scan(&b.ID, &b.TenantID, &b.Epoch, &b.LeaseID, &b.LeaseExpiresAt, &b.CancelRequested, &b.Now)
	return b, err
}

// Heartbeat extends the leases, of any tenants, that are still held, and gives those. A repeat
// extends again.
func (s *Jobs) Heartbeat(ctx context.Context, leases []job.Lease) (map[job.Lease]Beat, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	if len(leases) == 0 {
		return map[job.Lease]Beat{}, nil
	}
	beats, err := store.Query(ctx, s.Store, scanBeat, heartbeatSQL, leaseArgs(leases))
	if err != nil {
		return nil, fmt.Errorf("jobs: heartbeat: %w", err)
	}
	held := make(map[job.Lease]Beat, len(beats))
	for _, beat := range beats {
		held[beat.lease()] = beat
	}
	return held, nil
}

func leaseArgs(leases []job.Lease) store.Args {
	ids, tenants := make([]uuid.UUID, len(leases)), make([]uuid.UUID, len(leases))
	epochs, leaseIDs := make([]int64, len(leases)), make([]uuid.UUID, len(leases))
	for i, lease := range leases {
		ids[i], tenants[i], epochs[i], leaseIDs[i] = lease.Job, lease.Tenant, lease.Epoch, lease.ID
	}
	return store.Args{"ids": ids, "tenants": tenants, "epochs": epochs, "leases": leaseIDs}
}
