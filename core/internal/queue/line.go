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
	"github.com/forgequeue/forgequeue/shared/api"
)

// lineSQL reads each range of the ready index by itself: with OR between them it would be one scan of the lane's jobs.
const lineSQL = `
SELECT j.lane_id, statement_timestamp() AS now,
  (SELECT count(*) FROM (
     (SELECT 1 FROM jobs a WHERE a.state = 'queued' AND a.lane_id = j.lane_id AND a.priority > j.priority LIMIT @most)
     UNION ALL
     (SELECT 1 FROM jobs a WHERE a.state = 'queued' AND a.lane_id = j.lane_id AND a.priority = j.priority AND (a.ready_at, a.id) < (j.ready_at, j.id) LIMIT @most)
     LIMIT @most) AS counted) AS ahead,
  (SELECT COALESCE(json_agg(w), '[]') FROM (
     SELECT types, tags FROM workers WHERE owner IN (j.tenant_id, @platform) AND status = 'ACTIVE' AND j.queue = ANY(queues) LIMIT 1000) AS w) AS workers,
  (SELECT l.due FROM rate_log l WHERE l.tenant_id = j.tenant_id AND l.queue = j.queue ORDER BY l.seq DESC LIMIT 1) AS queue_due,
  (SELECT l.due FROM rate_log l WHERE l.tenant_id = j.tenant_id AND l.queue = @type_name ORDER BY l.seq DESC LIMIT 1) AS type_due
FROM jobs j
WHERE j.id = @id AND j.state = 'queued'`

// Line is where a queued job stands.
type Line struct {
	LaneID directory.LaneID
	Now    time.Time
	// Ahead are the jobs of its lane before it, api.MaxCountedAhead+1 at most.
	Ahead int64
	// Workers are the types and tags of active workers of its queue.
	Workers []LineWorker
	// QueueDue and TypeDue are when the rates of its queue and type allow the next start; nil for never used.
	QueueDue, TypeDue *time.Time
}

// LineWorker is an active worker of a queue; nil types are all.
type LineWorker struct{ Types, Tags []string }

// Line reads where a queued job stands; store.ErrNotFound if it is no longer queued.
func (s *Jobs) Line(ctx context.Context, id uuid.UUID, typeName string) (Line, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	scan := func(row pgx.CollectableRow) (line Line, err error) {
		var workers []byte
		if err = row.Scan(&line.LaneID, &line.Now, &line.Ahead, &workers, &line.QueueDue, &line.TypeDue); err == nil {
			err = json.Unmarshal(workers, &line.Workers)
		}
		return line, err
	}
	lines, err := store.Query(ctx, s.Store, scan, lineSQL, store.Args{
		"id": id, "type_name": typeName, "platform": tenant.Platform, "most": api.MaxCountedAhead + 1,
	})
	if err != nil {
		return Line{}, fmt.Errorf("queue: line: %w", store.NothingChanged(err))
	}
	if len(lines) == 0 {
		return Line{}, store.ErrNotFound
	}
	return lines[0], nil
}
