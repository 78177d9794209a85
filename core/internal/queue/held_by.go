package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// heldBySQL lists leases of one worker and locks none. Like ofDeadWorkersSQL it goes through the
// running jobs by their index, in its order: an index by worker would cost every claim and every
// finish.
const heldBySQL = `
SELECT id, tenant_id, epoch, lease_id
FROM jobs
WHERE state = 'running' AND worker_owner = @owner AND worker_id = @worker_id
  -- by PostgreSQL's clock; what the worker claims later is not given back
  AND started_at <= @until::timestamptz
ORDER BY lease_expires_at, id
LIMIT @batch`

// HeldBy lists at most batch leases, of any tenants' jobs, that a worker of owner, a tenant or
// tenant.Platform, has held since until or longer.
func (s *Jobs) HeldBy(ctx context.Context, owner tenant.ID, workerID string, until time.Time, batch int) ([]job.Lease, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	scan := func(row pgx.CollectableRow) (job.Lease, error) {
		var lease job.Lease
		err := row.Scan(&lease.Job, &lease.Tenant, &lease.Epoch, &lease.ID)
		return lease, err
	}
	leases, err := store.Query(ctx, s.Store, scan, heldBySQL, store.Args{
		"owner": owner, "worker_id": workerID, "until": until, "batch": batch,
	})
	if err != nil {
		return nil, fmt.Errorf("queue: leases of a worker: %w", err)
	}
	return leases, nil
}
