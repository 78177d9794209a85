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
// without.
const verifySQL = `
SELECT 'blocked: ' || id || ' waits for no job' AS found FROM (
  SELECT id FROM jobs
  WHERE state IN ('blocked', 'scheduled') AND state = 'blocked'
    AND NOT EXISTS (SELECT FROM dependencies WHERE child_id = jobs.id AND resolved_at IS NULL)
  ORDER BY id LIMIT 100) AS stuck
UNION ALL
SELECT 'follow-up: of ' || job_id || ' is ' || date_trunc('second', statement_timestamp() - ended_at) || ' old' FROM (
  SELECT job_id, ended_at FROM follow_ups WHERE ended_at < statement_timestamp() - @late::interval ORDER BY id LIMIT 100) AS late`

// VerifyDependencies gives a line for each blocked job that waits for nothing, and for each follow-up
// that is older than a minute; at most 100 of each.
func (e *Edges) VerifyDependencies(ctx context.Context) ([]string, error) {
	found, err := store.Query(ctx, e.Store, pgx.RowTo[string], verifySQL, store.Args{"late": lateFollowUp})
	if err != nil {
		return nil, fmt.Errorf("dependency: verify: %w", store.NothingChanged(err))
	}
	return found, nil
}
