package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
)

// lineSQL reads each range of the ready index by itself: with OR between them it would be one scan of the lane's jobs.
// Of a job that is not queued none are ahead.
const lineSQL = `
SELECT statement_timestamp() AS now,
  (SELECT count(*) FROM jobs j CROSS JOIN LATERAL (
     (SELECT FROM jobs a WHERE a.state = 'queued' AND a.lane_id = j.lane_id AND a.priority > j.priority LIMIT @most)
     UNION ALL
     (SELECT FROM jobs a WHERE a.state = 'queued' AND a.lane_id = j.lane_id AND a.priority = j.priority AND (a.ready_at, a.id) < (j.ready_at, j.id) LIMIT @most)
     LIMIT @most) AS counted
   WHERE j.id = @id AND j.state = 'queued') AS ahead,
  (SELECT COALESCE(json_agg(w), '[]') FROM (SELECT types, tags FROM ` + directory.ActiveWorkersOfQueue + ` LIMIT 1000) AS w) AS workers,
  (SELECT l.due FROM rate_log l WHERE l.tenant_id = @owner AND l.queue = @queue ORDER BY l.seq DESC LIMIT 1) AS queue_due,
  (SELECT l.due FROM rate_log l WHERE l.tenant_id = @owner AND l.queue = @type ORDER BY l.seq DESC LIMIT 1) AS type_due`

// Line is where a waiting job stands.
type Line struct {
	Now time.Time
	// Ahead are the jobs of its lane before it, api.MaxCountedAhead+1 at most.
	Ahead int64
	// Workers are active workers of its queue, a thousand at most; only their Types and Tags are set.
	Workers []directory.ActiveWorker
	// QueueDue and TypeDue are when the rates of its queue and type allow the next start; nil for never used.
	QueueDue, TypeDue *time.Time
}

// Line reads where a waiting job of a lane stands.
func (s *Jobs) Line(ctx context.Context, id uuid.UUID, lane directory.LaneKey) (Line, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	scan := func(row pgx.CollectableRow) (line Line, err error) {
		var workers []byte
		if err = row.Scan(&line.Now, &line.Ahead, &workers, &line.QueueDue, &line.TypeDue); err == nil {
			err = json.Unmarshal(workers, &line.Workers)
		}
		return line, err
	}
	lines, err := store.Query(ctx, s.Store, scan, lineSQL, store.Args{
		"id": id, "owner": lane.Tenant, "platform": tenant.Platform, "queue": lane.Queue,
		"type": usage.TypeName(lane.Queue, lane.Type), "most": api.MaxCountedAhead + 1,
	})
	if err != nil || len(lines) == 0 { // there is always one
		return Line{}, fmt.Errorf("queue: line: %w", store.NothingChanged(err))
	}
	return lines[0], nil
}
