package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// lateWake is how late the end of a wait may be: a core promotes a job within milliseconds, another core within seconds.
const lateWake = 5 * time.Minute

// A signal is stored, and a wait is decided, under the lock of the job's row: so no snapshot has a waiting job whose wait is over.
const verifyWaitsSQL = `
SELECT 'waiting: ' || id || ' has the signals that it waits for' FROM (
  SELECT jobs.id FROM jobs JOIN job_waits AS wait ON wait.job_id = jobs.id
  WHERE jobs.state IN ('scheduled', 'waiting') AND jobs.state = 'waiting' AND cardinality(wait.names) > 0
    AND CASE WHEN wait.all_of
             THEN NOT EXISTS (SELECT FROM unnest(wait.names) AS asked(name)
                              WHERE NOT EXISTS (SELECT FROM job_signals AS s WHERE s.job_id = jobs.id AND s.name = asked.name))
             ELSE EXISTS (SELECT FROM job_signals AS s WHERE s.job_id = jobs.id AND s.name = ANY(wait.names)) END
  ORDER BY jobs.id LIMIT 100) AS asleep
UNION ALL
SELECT 'waiting: ' || id || ' waits for nothing that is stored' FROM (
  SELECT id FROM jobs
  WHERE state IN ('scheduled', 'waiting') AND state = 'waiting' AND NOT EXISTS (SELECT FROM job_waits WHERE job_id = jobs.id)
  ORDER BY id LIMIT 100) AS lost
UNION ALL
SELECT 'waiting: ' || id || ' should have been woken at ' || date_trunc('second', run_at) FROM (
  SELECT id, run_at FROM jobs
  WHERE state IN ('scheduled', 'waiting') AND state = 'waiting' AND run_at < statement_timestamp() - @late::interval
    AND tenant_id <> ALL(` + store.MovingNowSQL + `)
  ORDER BY run_at, id LIMIT 100) AS late`

// VerifyWaits gives a line for each waiting job whose wait is over, for each of which it is not known what it waits for, and for each
// whose time was over minutes ago; at most 100 of each.
func (s *Jobs) VerifyWaits(ctx context.Context) ([]string, error) {
	found, err := store.Query(ctx, s.Store, pgx.RowTo[string], verifyWaitsSQL, store.Args{"late": lateWake})
	if err != nil {
		return nil, fmt.Errorf("jobs: verify waits: %w", store.NotApplied(err))
	}
	return found, nil
}
