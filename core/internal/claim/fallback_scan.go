package claim

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// probeSQL gives for each list the first job after a position, and how many there are, up to @most:
// one probe of the ready index for each.
const probeSQL = `
SELECT list.lane_id AS lane, list.priority, first.at, first.id, first.jobs
FROM unnest(@list_lanes::bigint[], @list_priorities::smallint[], @list_ats::timestamptz[], @list_ids::uuid[])
     AS list(lane_id, priority, at, id)
CROSS JOIN LATERAL (
  SELECT (array_agg(j.ready_at))[1] AS at, (array_agg(j.id))[1] AS id, count(*) AS jobs
  FROM (
    SELECT ready_at, id FROM jobs
    WHERE state = 'queued' AND lane_id = list.lane_id AND priority = list.priority AND (ready_at, id) > (list.at, list.id)
    ORDER BY ready_at, id
    LIMIT @most
  ) AS j
) AS first
WHERE first.jobs > 0`

// Probe gives the lists, of any tenants, with jobs after the positions given; it counts them up to
// most. It is the fallback for lost wake-ups.
func (s *Claimer) Probe(ctx context.Context, lists []ReadyList, most int) ([]jobs.Waiting, error) {
	if len(lists) == 0 {
		return nil, nil
	}
	args := listArgs(lists)
	args["most"] = most
	found, err := store.Query(ctx, s.Store, pgx.RowToStructByName[jobs.Waiting], probeSQL, args)
	if err != nil {
		return nil, fmt.Errorf("claim: probe: %w", store.NotApplied(err))
	}
	return found, nil
}

// scanSQL goes from list to list, one probe of the ready index for each. It reads the dead entries
// before each list's first job: many, under an old snapshot.
const scanSQL = `
WITH RECURSIVE list AS (
  (SELECT lane_id, priority, ready_at, id
   FROM jobs
   WHERE state = 'queued' AND (lane_id, priority) > (@lane::bigint, @priority::smallint)
   ORDER BY lane_id, priority, ready_at, id
   LIMIT 1)
  UNION ALL
  SELECT next.lane_id, next.priority, next.ready_at, next.id
  FROM list CROSS JOIN LATERAL (
    SELECT lane_id, priority, ready_at, id
    FROM jobs
    WHERE state = 'queued' AND (lane_id, priority) > (list.lane_id, list.priority)
    ORDER BY lane_id, priority, ready_at, id
    LIMIT 1
  ) AS next
)
-- all jobs of a list may wait at the gates of their keys
SELECT lane_id AS lane, priority, COALESCE(ready_at, '0001-01-01 00:00:00+00') AS at, id FROM list LIMIT @most`

// Scan finds lists with ready jobs, of all tenants, and in each the first job: at most most lists
// after after, in order. Fewer than most: the index has no more. A list without a job that may be claimed has no At.
func (s *Claimer) Scan(ctx context.Context, after ReadyList, most int) ([]jobs.Ready, error) {
	found, err := store.Query(ctx, s.Store, pgx.RowToStructByName[jobs.Ready], scanSQL, store.Args{
		"lane": after.Lane, "priority": after.Priority, "most": most,
	})
	if err != nil {
		return nil, fmt.Errorf("claim: scan: %w", store.NotApplied(err))
	}
	return found, nil
}

// givenBackSQL goes from lane to lane through the queued jobs that were given back, or have a key.
const givenBackSQL = `
WITH RECURSIVE lane AS (
  (SELECT lane_id, waiting_since FROM jobs
   WHERE state = 'queued' AND waiting_since IS NOT NULL
   ORDER BY lane_id, waiting_since
   LIMIT 1)
  UNION ALL
  SELECT next.lane_id, next.waiting_since
  FROM lane CROSS JOIN LATERAL (
    SELECT lane_id, waiting_since FROM jobs
    WHERE state = 'queued' AND waiting_since IS NOT NULL AND lane_id > lane.lane_id
    ORDER BY lane_id, waiting_since
    LIMIT 1
  ) AS next
)
SELECT min(waiting_since) FROM (SELECT waiting_since FROM lane LIMIT @most) AS lanes`

// OldestGivenBack gives since when the job, of any tenant, has waited that has waited longest of those that were given
// back, in most lanes at most; nil where there is none.
func (s *Claimer) OldestGivenBack(ctx context.Context, most int) (*time.Time, error) {
	found, err := store.Query(ctx, s.Store, pgx.RowTo[*time.Time], givenBackSQL, store.Args{"most": most})
	if err != nil {
		return nil, fmt.Errorf("claim: jobs that were given back: %w", store.NotApplied(err))
	}
	return found[0], nil
}
