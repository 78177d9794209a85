package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Stats has the statements.
type Stats struct{ *store.Store }

const countColumns = `submitted, started, completed, failed_attempts, dead_letter, cancelled, waiting_ms, running_ms`

const appendSQL = `
WITH ` + movingSQL + `, stored AS (
INSERT INTO job_stats (tenant_id, queue, grain, at, ` + countColumns + `)
SELECT tenant_id, queue, 0, at, ` + countColumns + `
FROM unnest(@tenants::uuid[], @queues::text[], @minutes::timestamptz[], @submitted::bigint[], @started::bigint[], @completed::bigint[],
            @failed::bigint[], @dead::bigint[], @cancelled::bigint[], @waiting::bigint[], @running::bigint[])
     AS part(tenant_id, queue, at, ` + countColumns + `)
WHERE tenant_id <> ALL((SELECT tenants FROM moving)::uuid[])
RETURNING 1
)
SELECT count(*) FROM stored`

// movingSQL are tenants that are being moved. Citus takes no INSERT whose SELECT reads tables in a subquery.
const movingSQL = `moving AS MATERIALIZED (SELECT ` + store.MovingSQL + ` AS tenants)`

// AppendStats appends counts, all or none, in one statement. It does nothing where there are none.
func (s *Stats) AppendStats(ctx context.Context, pending Pending) error {
	rows := rowsOf(pending)
	if len(rows) == 0 {
		return nil
	}
	n := len(rows)
	tenants, queues, minutes := make([]uuid.UUID, n), make([]string, n), make([]time.Time, n)
	var counts [8][]int64
	for c := range counts {
		counts[c] = make([]int64, n)
	}
	for i, one := range rows {
		tenants[i], queues[i], minutes[i] = one.Tenant, one.Name, time.Unix(one.minute*60, 0)
		for c, count := range []int64{
			one.Submitted, one.Started, one.Completed, one.FailedAttempts, one.DeadLetter, one.Cancelled,
			one.Waiting.Milliseconds(), one.Running.Milliseconds(),
		} {
			counts[c][i] = count
		}
	}
	err := store.Exec(store.WithClass(ctx, store.ClassLists), s.Store, appendSQL, store.Args{
		"tenants": tenants, "queues": queues, "minutes": minutes, "submitted": counts[0], "started": counts[1], "completed": counts[2],
		"failed": counts[3], "dead": counts[4], "cancelled": counts[5], "waiting": counts[6], "running": counts[7],
	})
	if err != nil {
		return fmt.Errorf("stats: append: %w", err)
	}
	return nil
}
