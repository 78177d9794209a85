package queues

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

// countedSQL begins a statement that counts the jobs of the queues in asked(name), in bounded index scans: each count
// stops at one more than its limit. The running jobs of all queues are scanned together, because they are bounded by what
// workers can hold.
const countedSQL = `,
counting AS MATERIALIZED (
  -- the queues share what may be counted together, where that is bounded
  SELECT GREATEST(LEAST(@most::bigint, NULLIF(@together::bigint, 0) / NULLIF(count(*), 0)), 1) AS most FROM asked),
lane_of AS (
  SELECT queue, id FROM lanes WHERE tenant_id = @tenant_id AND queue = ANY(ARRAY(SELECT name FROM asked))),
lanes_of AS MATERIALIZED (
  SELECT queue, array_agg(id) AS ids FROM lane_of GROUP BY queue),
held AS MATERIALIZED (
  SELECT lane_id, worker_owner, worker_id, count(*) AS jobs FROM jobs
  WHERE state = 'running' AND lane_id = ANY(ARRAY(SELECT id FROM lane_of)) GROUP BY lane_id, worker_owner, worker_id),
running AS MATERIALIZED (
  SELECT l.queue, sum(h.jobs)::bigint AS jobs, count(DISTINCT (w.owner, w.worker_id)) FILTER (WHERE w.status <> 'ACTIVE') AS stale
  FROM held h JOIN lane_of l ON l.id = h.lane_id LEFT JOIN workers w ON w.owner = h.worker_owner AND w.worker_id = h.worker_id
  GROUP BY l.queue),
serving AS (
  SELECT queues, types, tags, count(*) AS workers FROM workers
  WHERE owner IN (@tenant_id, @platform) AND status = 'ACTIVE' AND queues && ARRAY(SELECT name FROM asked)
  GROUP BY queues, types, tags
  ORDER BY queues, types, tags
  LIMIT 10000)`

// depthColumns are the columns of Depths. The queued jobs are counted in two parts, so that those ahead of a new job are
// not counted twice. The workers that serve any of the queues are in the first row.
const depthColumns = `
  counting.most,
  (SELECT count(*) FROM (SELECT FROM unnest(lanes_of.ids) AS l(id) CROSS JOIN LATERAL
     (SELECT FROM jobs WHERE state IN ('blocked', 'scheduled', 'waiting') AND state = 'blocked' AND lane_id = l.id LIMIT counting.most + 1) AS j LIMIT counting.most + 1) AS c) AS blocked,
  (SELECT count(*) FROM (SELECT FROM unnest(lanes_of.ids) AS l(id) CROSS JOIN LATERAL
     (SELECT FROM jobs WHERE state IN ('blocked', 'scheduled', 'waiting') AND state = 'scheduled' AND lane_id = l.id LIMIT counting.most + 1) AS j LIMIT counting.most + 1) AS c) AS scheduled,
  (SELECT count(*) FROM (SELECT FROM unnest(lanes_of.ids) AS l(id) CROSS JOIN LATERAL
     (SELECT FROM jobs WHERE state IN ('blocked', 'scheduled', 'waiting') AND state = 'waiting' AND lane_id = l.id LIMIT counting.most + 1) AS j LIMIT counting.most + 1) AS c) AS waiting,
  ahead.jobs + (SELECT count(*) FROM (SELECT FROM unnest(waiting.ids) AS l(id) CROSS JOIN LATERAL
     (SELECT FROM jobs WHERE state = 'queued' AND lane_id = l.id AND priority < @priority LIMIT counting.most + 1 - ahead.jobs) AS j LIMIT counting.most + 1 - ahead.jobs) AS c) AS queued,
  ahead.jobs AS ahead,
  LEAST(COALESCE(running.jobs, 0), counting.most + 1) AS running,
  COALESCE(running.stale, 0) AS stale_workers,
  (SELECT count(*) FROM (SELECT FROM dead_letters WHERE tenant_id = @tenant_id AND queue = asked.name LIMIT counting.most + 1) AS c) AS dead_letter,
  floor(extract(epoch FROM statement_timestamp() - LEAST(
    (SELECT min(j.ready_at)
     FROM unnest(waiting.ids) AS l(id) JOIN lanes AS t ON t.id = l.id AND NOT t.fair CROSS JOIN generate_series(0, 9) AS p(priority) CROSS JOIN LATERAL
       (SELECT ready_at FROM jobs WHERE state = 'queued' AND lane_id = l.id AND priority = p.priority
        ORDER BY ready_at, id LIMIT 1) AS j),
    -- those that were given back, and those with a key
    (SELECT min(j.waiting_since)
     FROM unnest(waiting.ids) AS l(id) CROSS JOIN LATERAL
       (SELECT waiting_since FROM jobs WHERE state = 'queued' AND waiting_since IS NOT NULL AND lane_id = l.id
        ORDER BY waiting_since LIMIT 1) AS j))) * 1000)::bigint AS oldest_ms,
  (SELECT json_agg(json_build_object('type', t.type, 'tags', t.tags)) FROM unnest(waiting.ids) AS l(id) JOIN lanes t ON t.id = l.id) AS ready,
  CASE WHEN asked.name = (SELECT name FROM asked ORDER BY name LIMIT 1) THEN
    (SELECT json_agg(json_build_object('queues', s.queues, 'types', s.types, 'tags', s.tags, 'workers', s.workers)) FROM serving AS s) END AS workers
FROM asked CROSS JOIN counting
LEFT JOIN lanes_of ON lanes_of.queue = asked.name
LEFT JOIN running ON running.queue = asked.name
-- most lanes have no queued job
CROSS JOIN LATERAL (
  SELECT array_agg(l.id) AS ids FROM unnest(lanes_of.ids) AS l(id) CROSS JOIN LATERAL
    (SELECT FROM jobs WHERE state = 'queued' AND lane_id = l.id LIMIT 1) AS j) AS waiting
CROSS JOIN LATERAL (
  SELECT count(*) AS jobs FROM (SELECT FROM unnest(waiting.ids) AS l(id) CROSS JOIN LATERAL
    (SELECT FROM jobs WHERE state = 'queued' AND lane_id = l.id AND priority >= @priority LIMIT counting.most + 1) AS j LIMIT counting.most + 1) AS c) AS ahead
ORDER BY asked.name`

const queuesOfSQL = `
WITH asked AS MATERIALIZED (
SELECT ` + settingsColumns + `
FROM queues
WHERE tenant_id = @tenant_id AND name > @after AND (@only::text IS NULL OR name = @only) AND left(name, 1) <> '_' AND ` + lanes.QueueThere + `
ORDER BY name
LIMIT @size)` + countedSQL + `
SELECT asked.*,` + depthColumns

// depthsSQL counts the jobs of one queue, which may not be there.
const depthsSQL = `
WITH asked AS MATERIALIZED (SELECT @name::text AS name)` + countedSQL + `
SELECT` + depthColumns

func depthsArgs(owner tenant.ID) store.Args {
	return store.Args{"tenant_id": owner, "platform": tenant.Platform, "most": api.MaxDepthCount, "together": 0, "priority": api.DefaultPriority}
}

// Depths are a queue's counts; one above Most means more.
type Depths struct {
	Most                                                     int64
	Blocked, Scheduled, Waiting, Queued, Running, DeadLetter int64
	// Ahead are the queued jobs of the default priority or a higher one.
	Ahead int64
	// StaleWorkers hold jobs of the queue, and their heartbeats are missing.
	StaleWorkers int64
	OldestMs     *int64
	// Ready is what a worker has to take for the queue's claimable jobs.
	Ready []Demand
	// Workers are those of all the queues that were counted; the first of them has it.
	Workers []workers.ActiveOfEach
}

// targets are where a row of depthColumns is scanned to.
func (d *Depths) targets() []any {
	return []any{
		&d.Most, &d.Blocked, &d.Scheduled, &d.Waiting, &d.Queued, &d.Ahead, &d.Running, &d.StaleWorkers, &d.DeadLetter, &d.OldestMs, &d.Ready, &d.Workers,
	}
}

// Demand is what a job asks of its worker.
type Demand struct {
	Type string   `json:"type"`
	Tags []string `json:"tags"`
}

// Counted is a queue with its depths.
type Counted struct {
	Settings
	Depths
}

// Page is a part of a tenant's queues.
type Page struct {
	// After is the name before the first; Only, where not empty, the only one.
	After, Only string
	Size        int
	// CountTogether is how many jobs of a state may be counted in all of them together; 0 for no such bound.
	CountTogether int64
}

// List lists a tenant's queues by name, with their depths, and the active workers of the tenant and of the platform
// that serve any of them, at most ten thousand variants, in one statement.
func (s *Queues) List(ctx context.Context, owner tenant.ID, page Page) ([]Counted, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	args := depthsArgs(owner)
	args["after"], args["only"], args["size"], args["together"] = page.After, store.NullIfEmpty(page.Only), page.Size, page.CountTogether
	scan := func(row pgx.CollectableRow) (q Counted, err error) {
		q.Settings, err = scanSettings(row, q.targets()...)
		return q, err
	}
	queues, err := store.Query(ctx, s.Store, scan, queuesOfSQL, args)
	if err != nil {
		return nil, fmt.Errorf("queues: queues of a tenant: %w", store.NotApplied(err))
	}
	return queues, nil
}

func countDepths(ctx context.Context, tx pgx.Tx, owner tenant.ID, name string) (counted Depths, err error) {
	args := depthsArgs(owner)
	args["name"] = name
	err = tx.QueryRow(ctx, depthsSQL, args).Scan(counted.targets()...)
	return counted, err
}

// Shown cuts counts at the limit and names the ones that were cut.
func (d *Depths) Shown() (api.Depth, []string) {
	names := []string{}
	cut := func(name string, count int64) int64 {
		if count > d.Most {
			names = append(names, name)
			return d.Most
		}
		return count
	}
	// Not in the return statement: Go does not say whether names is read before or after the calls there, and
	// Go 1.26 then returns a list in this function's stack (golang/go#81612 and its like).
	shown := api.Depth{
		Blocked: cut("blocked", d.Blocked), Scheduled: cut("scheduled", d.Scheduled), Waiting: cut("waiting", d.Waiting), Queued: cut("queued", d.Queued),
		Running: cut("running", d.Running), DeadLetter: cut("dead_letter", d.DeadLetter),
	}
	return shown, names
}
