package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// lateCheck is for how long a job at its gate may wait for nothing: a core works a check off within milliseconds, another core
// within seconds, and the sweep finds what a change of settings left behind.
const lateCheck = 5 * time.Minute

// verifySQL gives the keys of which a job could have passed its gate long ago, and has no check.
const verifySQL = `
SELECT 'key: ' || key || ' of the queue ' || queue || ' has jobs that wait for no other' FROM (
  SELECT asked.queue, asked.key
  FROM (SELECT tenant_id, queue, key FROM jobs
        WHERE key IS NOT NULL AND state = 'queued' AND ready_at IS NULL AND gate < 8 AND waiting_since < statement_timestamp() - @late::interval
        GROUP BY tenant_id, queue, key) AS asked
  LEFT JOIN queues ON queues.tenant_id = asked.tenant_id AND queues.name = asked.queue
  WHERE NOT EXISTS (SELECT FROM key_checks AS c WHERE c.tenant_id = asked.tenant_id AND c.queue = asked.queue AND asked.key = ANY(c.keys))
    AND CASE WHEN queues.keys ->> 'order' = 'fifo'
             THEN NOT ` + hasPastGate + ` AND (SELECT state = 'queued' ` + inOrder + ` ` + gateOrder + ` LIMIT 1)
                  AND NOT (queues.keys ->> 'on_dead' = 'hold' AND ` + hasDead + `)
             ELSE (SELECT count(*) ` + pastGate + `) < COALESCE((queues.keys ->> 'max_running')::bigint, 9223372036854775807) END
  ORDER BY asked.queue, asked.key LIMIT 100) AS stuck`

// verifyLinesSQL gives the jobs that wait for a budget, and are in no line.
const verifyLinesSQL = `
SELECT 'budget: the job ' || id || ' of the queue ' || queue || ' waits for a budget, and is in no line'
FROM jobs
WHERE gate > 0 AND gate >= 8 AND state = 'queued' AND NOT EXISTS (SELECT FROM budget_line AS l WHERE l.job_id = jobs.id AND l.passed_at IS NULL)
LIMIT 100`

// Verify gives a line for each key whose jobs wait for nothing, and for each job that is lost to budgets: 100 of both at most.
func (g *Gate) Verify(ctx context.Context) ([]string, error) {
	found, err := store.Query(ctx, g.Store, pgx.RowTo[string], verifySQL, store.Args{"late": lateCheck})
	if err != nil {
		return nil, fmt.Errorf("gate: verify: %w", store.NotApplied(err))
	}
	lost, err := store.Query(ctx, g.Store, pgx.RowTo[string], verifyLinesSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("gate: verify: %w", store.NotApplied(err))
	}
	return append(found, lost...), nil
}
