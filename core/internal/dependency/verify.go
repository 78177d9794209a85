package dependency

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// lateFollowUp is the age from which a follow-up is late: a core works it off within milliseconds,
// another core within seconds.
const lateFollowUp = time.Minute

// A job is unblocked in the transaction that resolves its last edge, so no snapshot has a blocked one
// without. A parent's end and its follow-up, and an edge's resolution and the follow-up's deletion, are
// in one transaction each: so no edge waits for a parent that has ended without one, except for a
// dead letter that holds its children, or whose death an earlier follow-up has handled.
const verifySQL = `
SELECT 'blocked: ' || id || ' waits for no job' AS found FROM (
  SELECT id FROM jobs
  WHERE state IN ('blocked', 'scheduled', 'waiting') AND state = 'blocked'
    AND NOT EXISTS (SELECT FROM dependencies WHERE child_id = jobs.id AND resolved_at IS NULL)
  ORDER BY id LIMIT 100) AS stuck
UNION ALL
SELECT 'blocked: ' || child_id || ' waits for ' || parent_id || ', which has ended' FROM (
  SELECT edge.child_id, edge.parent_id FROM jobs JOIN dependencies AS edge ON edge.child_id = jobs.id AND edge.resolved_at IS NULL
  WHERE jobs.state IN ('blocked', 'scheduled', 'waiting') AND jobs.state = 'blocked'
    AND NOT EXISTS (SELECT FROM jobs AS parent WHERE parent.id = edge.parent_id)
    AND NOT EXISTS (SELECT FROM follow_ups WHERE job_id = edge.parent_id)
    AND NOT EXISTS (SELECT FROM dead_letters AS parent WHERE parent.id = edge.parent_id
                    AND (edge.on_failed = 'hold' OR edge.redrives > parent.redrives))
    -- where a tenant's rows are being removed, parents may go before their children
    AND NOT EXISTS (SELECT FROM tenants WHERE tenants.id = jobs.tenant_id AND deleting_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM tenant_fences AS fence WHERE fence.tenant_id = jobs.tenant_id AND fence.state IN ('left', 'arriving'))
  ORDER BY edge.child_id, edge.parent_id LIMIT 100) AS forgotten
UNION ALL
SELECT 'follow-up: of ' || job_id || ' is ' || date_trunc('second', statement_timestamp() - ended_at) || ' old' FROM (
  SELECT job_id, ended_at FROM follow_ups WHERE ended_at < statement_timestamp() - @late::interval ORDER BY id LIMIT 100) AS late`

// VerifyDependencies gives a line for each blocked job that waits for nothing, for each that waits for a
// job that has ended, and for each follow-up that is older than a minute; at most 100 of each.
func (e *Edges) VerifyDependencies(ctx context.Context) ([]string, error) {
	found, err := store.Query(ctx, e.Store, pgx.RowTo[string], verifySQL, store.Args{"late": lateFollowUp})
	if err != nil {
		return nil, fmt.Errorf("dependency: verify: %w", store.NotApplied(err))
	}
	return found, nil
}
