package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

// aheadSQL reads each range of the ready index by itself: with OR between them it would be one scan of the lane's jobs. A
// job that is not queued is as one that is queued now. Of another lane's jobs of the same priority as many count as of
// the job's own, and one more: lanes take turns.
const aheadSQL = `
WITH found AS (
  SELECT lane_id, priority, ready_at, id, ready_at IS NULL AS at_gate FROM jobs WHERE id = @id AND state = 'queued'
), job AS (
  SELECT lane_id, priority, ready_at, id FROM found
  UNION ALL
  SELECT @lane::bigint, @priority::smallint,
         -- the next turn of its key, in a fair lane
         CASE WHEN @key = '' THEN 'infinity'::timestamptz ELSE COALESCE(
           (SELECT ready_at FROM jobs WHERE state = 'queued' AND key IS NOT NULL AND lane_id = @lane AND priority = @priority AND key = @key AND ready_at IS NOT NULL
            ORDER BY ready_at DESC LIMIT 1),
           (SELECT ready_at FROM jobs WHERE state = 'queued' AND lane_id = @lane AND priority = @priority AND ready_at IS NOT NULL ORDER BY ready_at, id LIMIT 1),
           '-infinity') + interval '100 microseconds' END,
         @id
  WHERE NOT EXISTS (SELECT FROM found)
), same AS (
  SELECT count(*) AS jobs FROM job j CROSS JOIN LATERAL
    (SELECT FROM jobs a WHERE a.state = 'queued' AND a.lane_id = j.lane_id AND a.priority = j.priority AND (a.ready_at, a.id) < (j.ready_at, j.id) LIMIT @most) AS counted
)
SELECT statement_timestamp() AS now,
  COALESCE((SELECT at_gate FROM found), false) AS at_gate,
  (SELECT jobs FROM same) AS same,
  (SELECT count(*) FROM job j CROSS JOIN LATERAL
     (SELECT FROM jobs a WHERE a.state = 'queued' AND a.lane_id = j.lane_id AND a.priority > j.priority LIMIT @most) AS counted) AS above,
  (SELECT COALESCE(json_object_agg(lane, jobs), '{}') FROM (
     SELECT lane, count(*) AS jobs FROM (
       SELECT l.id AS lane FROM job j CROSS JOIN unnest(@lanes::bigint[]) AS l(id) CROSS JOIN LATERAL (
         (SELECT FROM jobs a WHERE a.state = 'queued' AND a.lane_id = l.id AND a.priority > j.priority LIMIT @most)
         UNION ALL
         (SELECT FROM jobs a WHERE a.state = 'queued' AND a.lane_id = l.id AND a.priority = j.priority LIMIT (SELECT jobs + 1 FROM same))
       ) AS counted
       WHERE l.id <> j.lane_id
       LIMIT @most
     ) AS each GROUP BY lane
   ) AS lanes) AS others,
  (SELECT COALESCE(json_agg(w), '[]') FROM (SELECT types, tags FROM ` + workers.ActiveOfQueue + ` LIMIT 1000) AS w) AS workers,
  (SELECT l.due FROM rate_log l WHERE l.tenant_id = @owner AND l.queue = @queue ORDER BY l.seq DESC LIMIT 1) AS queue_due,
  (SELECT l.due FROM rate_log l WHERE l.tenant_id = @owner AND l.queue = @type ORDER BY l.seq DESC LIMIT 1) AS type_due`

// QueuePosition is a place in line: that of a queued job, or the last one of its priority in a lane, or of its key.
type QueuePosition struct {
	// ID is the job's; the nil uuid for one that is not stored.
	ID       uuid.UUID
	Lane     lanes.Lane
	Priority int
	// Key is the job's in a fair lane, else empty.
	Key string
	// Beside are other lanes of its queue.
	Beside []lanes.ID
}

// Ahead is where a waiting job stands.
type Ahead struct {
	Now time.Time
	// AtGate: the job is queued, and waits at the gate of its key.
	AtGate bool
	// Ahead are the jobs of its lane before it, api.MaxCountedAhead+1 at most.
	Jobs int64
	// Others are the jobs of other lanes that are likely to come before it, api.MaxCountedAhead+1 at most in all.
	Others map[lanes.ID]int64
	// Workers are active workers of its queue, a thousand at most; only their Types and Tags are set.
	Workers []workers.Active
	// QueueDue and TypeDue are when the rates of its queue and type allow the next start; nil for never used.
	QueueDue, TypeDue *time.Time
}

// AheadOf reads where a waiting job stands.
func (s *Reader) AheadOf(ctx context.Context, spot QueuePosition) (Ahead, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	scan := func(row pgx.CollectableRow) (line Ahead, err error) {
		var same, above int64
		var others, workers []byte
		if err = row.Scan(&line.Now, &line.AtGate, &same, &above, &others, &workers, &line.QueueDue, &line.TypeDue); err == nil {
			line.Jobs = min(same+above, api.MaxCountedAhead+1)
			err = errors.Join(json.Unmarshal(others, &line.Others), json.Unmarshal(workers, &line.Workers))
		}
		return line, err
	}
	lines, err := store.Query(ctx, s.Store, scan, aheadSQL, store.Args{
		"id": spot.ID, "lane": spot.Lane.ID, "priority": spot.Priority, "key": spot.Key, "lanes": spot.Beside, "owner": spot.Lane.Tenant, "platform": tenant.Platform,
		"queue": spot.Lane.Queue, "type": caps.TypeName(spot.Lane.Queue, spot.Lane.Type), "most": api.MaxCountedAhead + 1,
	})
	if err != nil || len(lines) == 0 { // there is always one
		return Ahead{}, fmt.Errorf("jobs: line: %w", store.NotApplied(err))
	}
	return lines[0], nil
}
