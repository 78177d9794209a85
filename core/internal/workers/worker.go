package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Errors that a caller may act on, besides those of package store.
var (
	// ErrUnknown: the worker never registered, or is dead.
	ErrUnknown = errors.New("workers: worker unknown")
	// ErrTooMany: the tenant, or the platform, has reached its bound of workers.
	ErrTooMany = errors.New("workers: too many workers")
)

// Worker is a registered worker.
type Worker struct {
	WorkerID string
	Status   string
	Queues   []string
	// Types are those of the jobs that it takes; nil for all types.
	Types           []string
	Tags            []string
	Concurrency     int32
	Metadata        []byte
	RegisteredAt    time.Time
	LastHeartbeatAt time.Time
}

const workerColumns = `worker_id, status, queues, types, tags, concurrency, metadata, registered_at, last_heartbeat_at`

// registered is a worker's row after a statement.
type registered struct {
	Worker
	// Joined says that the worker was unknown or dead before.
	Joined bool
}

// deadSQL and joinedSQL give whether a statement has inserted or revived the worker.
const (
	deadSQL   = `WITH dead AS (SELECT 1 FROM workers WHERE owner = @owner AND worker_id = @worker_id AND status = 'DEAD')`
	joinedSQL = `
RETURNING ` + workerColumns + `
)
SELECT ` + workerColumns + `, registered_at = last_heartbeat_at OR EXISTS (SELECT 1 FROM dead) AS joined FROM stored`
)

// Max bounds the workers of a tenant, or of the platform, that are not dead, and all rows:
// above it, the dead ones with the oldest heartbeat are deleted. Two concurrent registrations may
// both be the last.
const Max = 10_000

// belowBound is true for a known worker that is not dead, and below the bound; evictDead deletes
// dead ones above it. Both read at most as many rows as the bound.
const (
	belowBound = `(EXISTS (SELECT 1 FROM workers WHERE owner = @owner AND worker_id = @worker_id AND status <> 'DEAD')
   OR (SELECT count(*) FROM (SELECT 1 FROM workers WHERE owner = @owner AND status <> 'DEAD' LIMIT @most) c) < @most)`
	evictDead = `, evicted AS (
  DELETE FROM workers
  WHERE owner = @owner AND status = 'DEAD' AND worker_id <> @worker_id
    AND worker_id = ANY(ARRAY(SELECT worker_id FROM workers WHERE owner = @owner AND status = 'DEAD' ORDER BY last_heartbeat_at LIMIT 2))
    AND (SELECT count(*) FROM (SELECT 1 FROM workers WHERE owner = @owner LIMIT @most) c) >= @most
    AND NOT EXISTS (SELECT 1 FROM workers WHERE owner = @owner AND worker_id = @worker_id)
), room AS MATERIALIZED (SELECT 1 WHERE ` + belowBound + ` AND ` + store.ServedOwnerSQL + `), stored AS (`
)

// registerSQL inserts or updates a worker, and revives a dead one.
const registerSQL = deadSQL + evictDead + `
INSERT INTO workers (owner, worker_id, status, queues, types, tags, concurrency, metadata, registered_at, last_heartbeat_at)
SELECT @owner, @worker_id, 'ACTIVE', @queues::text[], @types::text[], @tags::text[], @concurrency::integer, @metadata::json, statement_timestamp(), statement_timestamp()
FROM room
ON CONFLICT (owner, worker_id) DO UPDATE
SET status = 'ACTIVE', queues = EXCLUDED.queues, types = EXCLUDED.types, tags = EXCLUDED.tags, concurrency = EXCLUDED.concurrency,
    metadata = EXCLUDED.metadata, last_heartbeat_at = EXCLUDED.last_heartbeat_at` + joinedSQL

// Register inserts or updates a worker of owner, a tenant or tenant.Platform. joined says that it
// was unknown or dead before.
func (s *Workers) Register(ctx context.Context, owner tenant.ID, w api.WorkerRequest) (worker Worker, joined bool, err error) {
	concurrency := 1
	if w.Concurrency != nil {
		concurrency = *w.Concurrency
	}
	metadata := w.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	workers, err := store.Query(ctx, s.Store, pgx.RowToStructByName[registered], registerSQL, store.Args{
		"owner": owner, "worker_id": w.WorkerID, "queues": store.EmptyIfNil(w.Queues), "types": w.Types, "tags": store.EmptyIfNil(w.Tags),
		"concurrency": concurrency, "metadata": string(store.JSON(metadata)), "most": Max,
	})
	if err != nil {
		return Worker{}, false, fmt.Errorf("workers: register: %w", err)
	}
	if len(workers) == 0 {
		return Worker{}, false, ErrTooMany
	}
	return workers[0].Worker, workers[0].Joined, nil
}

// seenClaimingSQL registers a worker that claims without having registered, and otherwise sets its
// heartbeat and adds the queues and the types. Its other fields stay.
const seenClaimingSQL = deadSQL + evictDead + `
INSERT INTO workers (owner, worker_id, status, queues, types, tags, concurrency, metadata, registered_at, last_heartbeat_at)
SELECT @owner, @worker_id, 'ACTIVE', @queues::text[], @types::text[], @tags::text[], 1, '{}', statement_timestamp(), statement_timestamp()
FROM room
ON CONFLICT (owner, worker_id) DO UPDATE
SET status = 'ACTIVE', last_heartbeat_at = EXCLUDED.last_heartbeat_at,
    queues = CASE WHEN workers.queues @> EXCLUDED.queues THEN workers.queues
                  ELSE ARRAY(SELECT DISTINCT unnest(workers.queues || EXCLUDED.queues) ORDER BY 1 LIMIT 1000) END,
    types = CASE WHEN EXCLUDED.types IS NULL THEN NULL
                 WHEN workers.types @> EXCLUDED.types THEN workers.types
                 ELSE ARRAY(SELECT DISTINCT unnest(workers.types || EXCLUDED.types) ORDER BY 1 LIMIT 1000) END` + joinedSQL

// Claiming is what a worker claims with.
type Claiming struct {
	Queues []string
	// Types are those of the jobs that it takes; nil for all types.
	Types []string
	Tags  []string
}

// SeenClaiming records that a worker claims; an unknown or dead one is registered: joined is then
// true.
func (s *Workers) SeenClaiming(ctx context.Context, owner tenant.ID, workerID string, with Claiming) (worker Worker, joined bool, err error) {
	workers, err := store.Query(ctx, s.Store, pgx.RowToStructByName[registered], seenClaimingSQL, store.Args{
		"owner": owner, "worker_id": workerID, "queues": store.EmptyIfNil(with.Queues), "types": with.Types, "tags": store.EmptyIfNil(with.Tags), "most": Max,
	})
	if err != nil {
		return Worker{}, false, fmt.Errorf("workers: claiming worker: %w", store.NotApplied(err)) // no job was claimed
	}
	if len(workers) == 0 {
		return Worker{}, false, ErrTooMany
	}
	return workers[0].Worker, workers[0].Joined, nil
}

const beatWorkerSQL = `
UPDATE workers
SET status = 'ACTIVE', last_heartbeat_at = statement_timestamp()
WHERE owner = @owner AND worker_id = @worker_id AND status <> 'DEAD' AND ` + store.ServedOwnerSQL + `
RETURNING ` + workerColumns

// Beat records a worker's heartbeat; ErrUnknown if it never registered or is dead, and
// must register again.
func (s *Workers) Beat(ctx context.Context, owner tenant.ID, workerID string) (Worker, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	workers, err := store.Query(ctx, s.Store, pgx.RowToStructByName[Worker], beatWorkerSQL, store.Args{
		"owner": owner, "worker_id": workerID,
	})
	if err != nil {
		return Worker{}, fmt.Errorf("workers: worker heartbeat: %w", err)
	}
	if len(workers) == 0 {
		return Worker{}, ErrUnknown
	}
	return workers[0], nil
}

// removeWorkerSQL gives the time of the removal too, also where there was no such worker.
const removeWorkerSQL = `
WITH gone AS (DELETE FROM workers WHERE owner = @owner AND worker_id = @worker_id AND ` + store.ServedOwnerSQL + ` RETURNING 1)
SELECT statement_timestamp() AS at, count(*) > 0 AS known FROM gone`

// Removed is the removal of a worker: when it was, by PostgreSQL's clock, and whether the worker was
// known.
type Removed struct {
	At    time.Time
	Known bool
}

// Remove deletes a worker of owner, a tenant or tenant.Platform. A repeat deletes nothing.
func (s *Workers) Remove(ctx context.Context, owner tenant.ID, workerID string) (Removed, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[Removed], removeWorkerSQL, store.Args{
		"owner": owner, "worker_id": workerID,
	})
	if err != nil {
		return Removed{}, fmt.Errorf("workers: remove worker: %w", err)
	}
	return rows[0], nil
}

// leasesSQL scans the running jobs, which are bounded by what workers can hold; an index by worker
// would cost every claim and every finish.
const leasesSQL = `
SELECT worker_owner AS owner, worker_id, count(*) AS leases FROM jobs WHERE state = 'running' GROUP BY 1, 2`

// Leases is how many leases a worker holds.
type Leases struct {
	Owner    tenant.ID
	WorkerID string
	Leases   int
}

// Leases counts the leases of all workers, of any tenants, that hold any.
func (s *Workers) Leases(ctx context.Context) ([]Leases, error) {
	held, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByName[Leases], leasesSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("workers: leases: %w", store.NotApplied(err))
	}
	return held, nil
}

// Wire is the worker as the API shows it.
func (w *Worker) Wire(leases int) api.Worker {
	shown := api.Worker{
		WorkerID: w.WorkerID, Status: w.Status, Queues: w.Queues, Tags: w.Tags, Concurrency: int(w.Concurrency),
		Metadata: store.Metadata(w.Metadata), Leases: leases,
		RegisteredAt: api.At(w.RegisteredAt), LastHeartbeatAt: api.At(w.LastHeartbeatAt),
	}
	if w.Types != nil {
		shown.Types = &w.Types
	}
	return shown
}
