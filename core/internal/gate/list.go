package gate

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// listSQL jumps from key to key in the lines of each lane and priority, and counts the jobs of each key. The running jobs of the
// queue are read together: they are bounded by what workers can hold.
const listSQL = `
WITH lane AS MATERIALIZED (
  SELECT id FROM lanes WHERE tenant_id = @tenant_id AND queue = @queue
), running AS MATERIALIZED (
  SELECT key, count(*) AS jobs FROM jobs
  WHERE state = 'running' AND lane_id = ANY(ARRAY(SELECT id FROM lane)) AND key > @after GROUP BY key
), names AS (
  SELECT of.key FROM lane CROSS JOIN generate_series(0, 9) AS p(priority) CROSS JOIN LATERAL (
    WITH RECURSIVE keys AS (
      (SELECT key, 1 AS n FROM jobs
       WHERE state = 'queued' AND key IS NOT NULL AND lane_id = lane.id AND priority = p.priority AND key > @after ORDER BY key LIMIT 1)
      UNION ALL
      SELECT next.key, keys.n + 1 FROM keys CROSS JOIN LATERAL (
        SELECT key FROM jobs
        WHERE state = 'queued' AND key IS NOT NULL AND lane_id = lane.id AND priority = p.priority AND key > keys.key ORDER BY key LIMIT 1) AS next
      WHERE keys.n < @most::integer
    )
    SELECT key FROM keys
  ) AS of
  UNION
  SELECT key FROM running
), asked AS (
  SELECT @tenant_id::uuid AS tenant_id, @queue::text AS queue, key FROM (SELECT key FROM names ORDER BY key LIMIT @most) AS page
)
SELECT asked.key,
  (SELECT count(*) FROM (SELECT ` + atGate + ` UNION ALL SELECT ` + inLine + ` LIMIT @counted) AS c) AS waiting,
  (SELECT count(*) FROM (
     SELECT FROM lane CROSS JOIN generate_series(0, 9) AS p(priority) CROSS JOIN LATERAL (
       SELECT FROM jobs
       WHERE state = 'queued' AND key IS NOT NULL AND lane_id = lane.id AND priority = p.priority AND key = asked.key AND ready_at IS NOT NULL LIMIT @counted) AS j
     LIMIT @counted) AS c) AS ready,
  COALESCE((SELECT LEAST(jobs, @counted) FROM running WHERE running.key = asked.key), 0) AS running,
  CASE WHEN @hold THEN (SELECT id ` + dead + ` ORDER BY created_at, id LIMIT 1) END AS held_by
FROM asked
ORDER BY asked.key`

// namesPerRead is how many keys one statement counts.
const namesPerRead = 500

// List gives up to most keys of a queue with jobs that are ready, run or wait for others of their key, after a key, by name,
// where at least minWaiting jobs wait for others.
func (g *Gate) List(ctx context.Context, after Key, minWaiting int64, settings api.KeySettings, most int) (keys []api.QueueKey, err error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	size := most
	if minWaiting > 0 {
		size = namesPerRead
	}
	for {
		rows, err := store.Query(ctx, g.Store, scanQueueKey, listSQL, store.Args{
			"tenant_id": after.Tenant, "queue": after.Queue, "after": after.Key, "most": size, "counted": api.MaxCountedKeyJobs,
			"hold": LimitOf(&settings) == Ordered && settings.OnDead == api.KeyHold,
		})
		if err != nil {
			return nil, fmt.Errorf("gate: list: %w", store.NotApplied(err))
		}
		for _, one := range rows {
			if after.Key = one.Key; one.Waiting >= minWaiting && len(keys) < most {
				keys = append(keys, one)
			}
		}
		if len(rows) < size || len(keys) == most {
			return keys, nil
		}
	}
}

func scanQueueKey(row pgx.CollectableRow) (found api.QueueKey, err error) {
	var held *uuid.UUID
	if err = row.Scan(&found.Key, &found.Waiting, &found.Ready, &found.Running, &held); held != nil {
		id := held.String()
		found.HeldBy = &id
	}
	return found, err
}
