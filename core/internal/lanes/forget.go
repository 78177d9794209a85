package lanes

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// How a lane is deleted. No statement that stores a job reads its lane: a core takes it from its
// cache. So a lane is first retired, then deleted.
//
//	in use ──unused for IdleTime, no jobs──▶ retired ──RetiredTime later, no jobs──▶ deleted
//	   ▲                                        │
//	   └────── a job needs it (Ensure) ─────────┘
//
// A core uses a cached lane for a minute after it last read the table, and reads it every 5 s: no
// job is stored in a lane that was retired RetiredTime ago. Jobs that are stored nevertheless, by a
// process that stalled for that long, or are redriven into a deleted lane, are found by OrphanLanes
// and moved.
const (
	IdleTime    = time.Hour
	RetiredTime = 10 * time.Minute
)

// busyLanes are those of the picked lanes that have jobs. Running jobs have no index by lane; they
// are bounded by what workers can hold.
const busyLanes = `running AS MATERIALIZED (
  SELECT lane_id FROM jobs WHERE state = 'running'
), busy AS MATERIALIZED (
  SELECT id FROM picked
  WHERE EXISTS (SELECT FROM jobs j WHERE j.state = 'queued' AND j.lane_id = picked.id)
     OR EXISTS (SELECT FROM jobs j WHERE j.state IN ('blocked', 'scheduled', 'waiting') AND j.lane_id = picked.id)
     OR id IN (SELECT lane_id FROM running)
)`

// retireLanesSQL retires lanes without jobs that were not used for @idle; those with jobs count as
// used now. It skips locked rows.
const retireLanesSQL = `
WITH picked AS (
  SELECT id FROM lanes
  WHERE retired_at IS NULL AND used_at < statement_timestamp() - @idle::interval
    AND tenant_id <> ALL(` + store.MovingSQL + `)
  ORDER BY used_at
  LIMIT @most
  FOR UPDATE SKIP LOCKED
), ` + busyLanes + `
UPDATE lanes
SET used_at = statement_timestamp(),
    retired_at = (SELECT CASE WHEN id IN (SELECT id FROM busy) THEN NULL ELSE statement_timestamp() END)
WHERE id = ANY(ARRAY(SELECT id FROM picked))
RETURNING retired_at IS NOT NULL`

// Retire checks at most most unused lanes, of any tenants, and retires those without jobs.
func (s *Lanes) Retire(ctx context.Context, most int) (seen, retired int, err error) {
	done, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowTo[bool], retireLanesSQL, store.Args{"idle": IdleTime, "most": most})
	if err != nil {
		return 0, 0, fmt.Errorf("lanes: retire lanes: %w", err)
	}
	for _, one := range done {
		if one {
			retired++
		}
	}
	return len(done), retired, nil
}

// deleteLanesSQL deletes lanes that were retired @retired ago; one that got jobs since is in use
// again. A concurrent revival waits for the row, and then finds it deleted.
const deleteLanesSQL = `
WITH picked AS (
  SELECT id FROM lanes
  WHERE retired_at < statement_timestamp() - @retired::interval
    AND tenant_id <> ALL(` + store.MovingSQL + `)
  ORDER BY retired_at
  LIMIT @most
  FOR UPDATE SKIP LOCKED
), ` + busyLanes + `, revived AS (
  UPDATE lanes SET used_at = statement_timestamp(), retired_at = NULL
  WHERE id = ANY(ARRAY(SELECT id FROM busy))
  RETURNING id
), deleted AS (
  DELETE FROM lanes WHERE id = ANY(ARRAY(SELECT id FROM picked EXCEPT SELECT id FROM busy))
  RETURNING id
)
SELECT (SELECT count(*) FROM picked) AS seen, (SELECT count(*) FROM deleted) AS deleted`

// Delete checks at most most retired lanes, of any tenants, and deletes those without jobs.
// Their ids are never used again.
func (s *Lanes) Delete(ctx context.Context, most int) (seen, deleted int, err error) {
	type counts struct{ Seen, Deleted int }
	done, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByName[counts], deleteLanesSQL, store.Args{"retired": RetiredTime, "most": most})
	if err != nil {
		return 0, 0, fmt.Errorf("lanes: delete lanes: %w", err)
	}
	return done[0].Seen, done[0].Deleted, nil
}

// orphanLanesSQL goes from lane to lane through the two indexes by lane, and gives those without a
// row. Each step is a probe.
const orphanLanesSQL = `
WITH RECURSIVE place AS (
  SELECT ` + nextLane + ` AS id
  FROM (SELECT @after::bigint AS id) AS place
  UNION ALL
  SELECT ` + nextLane + ` FROM place WHERE place.id IS NOT NULL
), scanned AS MATERIALIZED (
  SELECT id FROM place LIMIT @most
)
SELECT id, NOT EXISTS (SELECT FROM lanes l WHERE l.id = scanned.id) AS gone
FROM scanned WHERE id IS NOT NULL`

// nextLane is the first lane after place.id with queued, blocked or scheduled jobs.
const nextLane = `LEAST(
    (SELECT lane_id FROM jobs WHERE state = 'queued' AND lane_id > place.id ORDER BY lane_id, priority, ready_at, id LIMIT 1),
    (SELECT lane_id FROM jobs WHERE state IN ('blocked', 'scheduled', 'waiting') AND lane_id > place.id ORDER BY lane_id, state LIMIT 1))`

// OrphanLanes checks at most most lanes, of any tenants, after one of them, and gives those that
// have waiting jobs and no row; last is 0 at the end.
func (s *Lanes) OrphanLanes(ctx context.Context, after ID, most int) (orphans []ID, last ID, err error) {
	type scanned struct {
		ID   ID
		Gone bool
	}
	found, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByName[scanned], orphanLanesSQL, store.Args{"after": after, "most": most})
	if err != nil {
		return nil, 0, fmt.Errorf("lanes: orphan lanes: %w", store.NotApplied(err))
	}
	for _, lane := range found {
		if lane.Gone {
			orphans = append(orphans, lane.ID)
		}
	}
	if len(found) == most {
		last = found[len(found)-1].ID
	}
	return orphans, last, nil
}

const jobsOfLaneSQL = `
(SELECT id, tenant_id, queue, type, tags, COALESCE(user_id, '') AS user_id, key, costs IS NOT NULL AS budgeted, priority, ready_at
 FROM jobs WHERE state = 'queued' AND lane_id = @lane ORDER BY lane_id, priority, ready_at, id LIMIT @most)
UNION ALL
(SELECT id, tenant_id, queue, type, tags, COALESCE(user_id, '') AS user_id, key, costs IS NOT NULL AS budgeted, priority, ready_at
 FROM jobs WHERE state IN ('blocked', 'scheduled', 'waiting') AND lane_id = @lane ORDER BY lane_id, state LIMIT @most)`

// Orphan is a waiting job whose lane was deleted.
type Orphan struct {
	ID       uuid.UUID
	TenantID tenant.ID
	Queue    string
	Type     string
	Tags     []string
	UserID   string
	Key      *string
	Budgeted bool
	Priority int16
	// ReadyAt is nil for a job that is not queued.
	ReadyAt *time.Time
}

// JobsOfLane lists waiting jobs of a lane, at most most of each state.
func (s *Lanes) JobsOfLane(ctx context.Context, lane ID, most int) ([]Orphan, error) {
	jobs, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByName[Orphan], jobsOfLaneSQL, store.Args{"lane": lane, "most": most})
	if err != nil {
		return nil, fmt.Errorf("lanes: jobs of a lane: %w", store.NotApplied(err))
	}
	return jobs, nil
}

const orphanedSQL = `
SELECT id FROM unnest(@ids::bigint[]) AS asked(id)
WHERE NOT EXISTS (SELECT FROM lanes l WHERE l.id = asked.id)`

// Orphaned gives the lanes that have no row.
func (s *Lanes) Orphaned(ctx context.Context, lanes []ID) ([]ID, error) {
	gone, err := store.Query(ctx, s.Store, pgx.RowTo[ID], orphanedSQL, store.Args{"ids": lanes})
	if err != nil {
		return nil, fmt.Errorf("lanes: orphan lanes: %w", store.NotApplied(err))
	}
	return gone, nil
}
