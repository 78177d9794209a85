package read

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
func (s *Reader) HeldBy(ctx context.Context, owner tenant.ID, workerID string, until time.Time, batch int) ([]job.Lease, error) {
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
		return nil, fmt.Errorf("jobs: leases of a worker: %w", err)
	}
	return leases, nil
}

// holderSilentSQL gives no row where the attempt has ended meanwhile, or its worker is active.
const holderSilentSQL = `
SELECT w.last_heartbeat_at
FROM jobs j
JOIN workers w ON w.owner = j.worker_owner AND w.worker_id = j.worker_id
WHERE j.id = @id AND j.tenant_id = @tenant_id AND j.state = 'running' AND j.epoch = @epoch
  AND w.status <> 'ACTIVE'`

// HolderSilentSince is the last heartbeat of the worker that runs an attempt of a tenant's job, if that worker is stale or
// dead; else nil.
func (s *Reader) HolderSilentSince(ctx context.Context, owner tenant.ID, id uuid.UUID, epoch int64) (*time.Time, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassSubmits), s.Store, pgx.RowTo[time.Time], holderSilentSQL, store.Args{
		"id": id, "tenant_id": owner, "epoch": epoch,
	})
	if err != nil {
		return nil, fmt.Errorf("jobs: worker of a job: %w", store.NotApplied(err))
	}
	if len(rows) == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	return &rows[0], nil
}
