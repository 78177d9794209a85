package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const listWorkersSQL = `
SELECT ` + workerColumns + `,
       COALESCE(held.leases, 0) AS leases
FROM workers
LEFT JOIN (
  SELECT worker_id AS holder, count(*) AS leases FROM jobs
  WHERE state = 'running' AND worker_owner = @owner GROUP BY worker_id
) AS held ON held.holder = worker_id
WHERE owner = @owner AND worker_id > @after
ORDER BY worker_id
LIMIT @size`

type listedWorker struct {
	Worker
	Leases int64
}

// List lists the workers of owner, a tenant or tenant.Platform, by id.
func (s *Workers) List(ctx context.Context, owner tenant.ID, after string, size int) ([]api.Worker, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[listedWorker], listWorkersSQL, store.Args{
		"owner": owner, "after": after, "size": size,
	})
	if err != nil {
		return nil, fmt.Errorf("workers: list workers: %w", store.NotApplied(err))
	}
	workers := make([]api.Worker, len(rows))
	for i := range rows {
		workers[i] = rows[i].Wire(int(rows[i].Leases))
	}
	return workers, nil
}

// Times since the last heartbeat.
const (
	StaleAfter  = 30 * time.Second
	deadAfter   = 120 * time.Second
	forgetAfter = 24 * time.Hour
)

// A worker turns stale, then dead, by PostgreSQL's clock. Dead ones stay visible for a day. It reads all
// workers: an index by the time of the heartbeat would be written by each.
const ageWorkersSQL = `
WITH aged AS (
  UPDATE workers
  SET status = (SELECT CASE WHEN last_heartbeat_at < statement_timestamp() - @dead::interval THEN 'DEAD' ELSE 'STALE' END)
  WHERE (status = 'ACTIVE' AND last_heartbeat_at < statement_timestamp() - @stale::interval
         OR status = 'STALE' AND last_heartbeat_at < statement_timestamp() - @dead::interval)
    AND (@answered::timestamptz IS NULL OR statement_timestamp() < @answered::timestamptz + @stale::interval)
    AND owner <> ALL(` + store.MovingSQL + `)
  RETURNING status
), forgotten AS (
  DELETE FROM workers
  WHERE ctid = ANY(ARRAY(SELECT ctid FROM workers
                         WHERE status = 'DEAD' AND last_heartbeat_at < statement_timestamp() - @forget::interval
                           AND owner <> ALL(` + store.MovingSQL + `)
                         ORDER BY last_heartbeat_at LIMIT 1000))
  RETURNING 1
)
SELECT (SELECT count(*) FROM aged WHERE status = 'STALE') AS stale,
       (SELECT count(*) FROM aged WHERE status = 'DEAD')  AS dead,
       (SELECT count(*) FROM forgotten)                   AS forgotten`

// Aged counts the workers whose status changed.
type Aged struct{ Stale, Dead, Forgotten int64 }

// Age makes workers of any tenant stale or dead, and deletes them, by their last heartbeat.
// ReapDead reaps the leases of dead ones. answered is when PostgreSQL last answered, by its clock;
// zero for now. A statement that itself ends an outage of StaleAfter or more makes no worker stale
// or dead.
func (s *Workers) Age(ctx context.Context, answered time.Time) (Aged, error) {
	args := store.Args{"stale": StaleAfter, "dead": deadAfter, "forget": forgetAfter, "answered": nil}
	if !answered.IsZero() {
		args["answered"] = answered
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[Aged], ageWorkersSQL, args)
	if err != nil {
		return Aged{}, fmt.Errorf("workers: age workers: %w", err)
	}
	return rows[0], nil
}

// deadWorkersSQL reads workers without a recent heartbeat alone: all dead ones are among them.
const deadWorkersSQL = `
SELECT statement_timestamp(), COALESCE(md5(string_agg(owner::text || ' ' || worker_id || ' ' || last_heartbeat_at::text, ',' ORDER BY owner, worker_id)), '')
FROM workers
WHERE status = 'DEAD' AND last_heartbeat_at < statement_timestamp() - @stale::interval`

// Dead gives PostgreSQL's time, and a text that is the same for as long as the same workers are dead, of all tenants; ""
// for none.
func (s *Workers) Dead(ctx context.Context) (now time.Time, dead string, err error) {
	_, err = store.Query(ctx, s.Store, func(row pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, row.Scan(&now, &dead)
	}, deadWorkersSQL, store.Args{"stale": StaleAfter})
	if err != nil {
		return time.Time{}, "", fmt.Errorf("workers: dead workers: %w", store.NotApplied(err))
	}
	return now, dead, nil
}

// servedSQL lists the queues and types that have an active worker, with the worker's owner.
const servedSQL = `
SELECT DISTINCT owner, unnest(queues), types FROM workers WHERE status = 'ACTIVE'`

// Served is a queue that active workers serve.
type Served struct {
	tenant.QueueKey
	// Types are those of the jobs that they take; nil for all types.
	Types []string
}

// Served lists the queues, of all tenants, that active workers serve, each maybe several times;
// those of the platform's workers are under tenant.Platform.
func (s *Workers) Served(ctx context.Context) ([]Served, error) {
	scan := func(row pgx.CollectableRow) (Served, error) {
		var one Served
		err := row.Scan(&one.Tenant, &one.Name, &one.Types)
		return one, err
	}
	served, err := store.Query(ctx, s.Store, scan, servedSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("workers: served: %w", store.NotApplied(err))
	}
	return served, nil
}

// ActiveOfQueue is the part of a statement after FROM that reads the active workers of @owner, or of the platform,
// that serve the queue.
const ActiveOfQueue = `workers WHERE owner IN (@owner, @platform) AND status = 'ACTIVE' AND @queue = ANY(queues)`

// Active is what an active worker takes.
type Active struct {
	// Types are those of the jobs that it takes; nil for all types.
	Types []string `json:"types"`
	Tags  []string `json:"tags"`
}

// ActiveOfEach are active workers that take the same.
type ActiveOfEach struct {
	Active

	Queues []string `json:"queues"`
	// Workers is how many they are.
	Workers int64 `json:"workers"`
}
