package caps

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Drift is an inconsistency that Verify found.
type Drift struct {
	// Check is the kind of check, such as "count" or "uncounted".
	Check string
	Key   CountKey
	// Stored is the stored count, Found the number of jobs.
	Stored, Found int64
}

// String is the drift as text for an operator.
func (d Drift) String() string {
	return fmt.Sprintf("%s: tenant %s, %s %q: stored %d, found %d", d.Check, d.Key.Tenant, d.Key.Counter, d.Key.Name, d.Stored, d.Found)
}

// countDriftSQL recounts every count from the jobs themselves. One statement has one snapshot: a
// job and its count change in one commit, so it is exact at any load.
const countDriftSQL = `
WITH newest AS (
  SELECT DISTINCT ON (tenant_id, counter, name) tenant_id, counter, name, count, bound, young, seen
  FROM usage_log ORDER BY tenant_id, counter, name, seq DESC
), stored AS (
  SELECT n.tenant_id, n.counter, n.name, n.count + COALESCE(credits.every, 0) AS n,
         -- as readUsageSQL reads it, by the mark
         n.count + n.young + COALESCE(credits.unseen, 0) AS marked
  FROM newest n CROSS JOIN LATERAL (
    SELECT sum(c.n) AS every, sum(c.n) FILTER (WHERE pg_visible_in_snapshot(c.xid, n.seen) IS NOT TRUE) AS unseen
    FROM usage_credits c
    WHERE c.tenant_id = n.tenant_id AND c.counter = n.counter AND c.name = n.name AND c.xid >= n.bound) AS credits
), found AS (
  SELECT c.owner AS tenant_id, c.counter::smallint, c.name, count(*) AS n
  FROM jobs CROSS JOIN LATERAL ` + countersSQL + `
  WHERE jobs.counted <> 0 AND jobs.counted & c.counter <> 0
  GROUP BY c.owner, c.counter, c.name
)
SELECT CASE WHEN COALESCE(stored.n, 0) = COALESCE(found.n, 0) THEN 'mark' ELSE 'count' END AS check, tenant_id, counter, name,
       COALESCE(stored.marked, 0)::bigint AS stored, COALESCE(found.n, 0)::bigint AS found
FROM stored FULL JOIN found USING (tenant_id, counter, name)
WHERE COALESCE(stored.n, 0) <> COALESCE(found.n, 0) OR COALESCE(stored.marked, 0) <> COALESCE(found.n, 0)`

// uncountedSQL finds jobs that are not in a settled count to which they belong.
const uncountedSQL = `
SELECT 'uncounted' AS check, k.tenant_id, k.counter, k.name, 0::bigint AS stored, count(*) AS found
FROM jobs CROSS JOIN LATERAL ` + countersSQL + `
-- by equality, for a hash join: ten thousand users' counts meet a million jobs
JOIN usage_counts k ON k.tenant_id = c.owner AND k.counter = c.counter AND k.name = c.name
WHERE k.settled AND (c.counter & ` + runningCountersSQL + ` = 0 OR jobs.state = 'running') AND jobs.counted & c.counter = 0 AND ` + tenant.OwnQueueSQL + `
GROUP BY k.tenant_id, k.counter, k.name`

// staleBitsSQL finds waiting jobs that are still in a count of running ones.
const staleBitsSQL = `
SELECT 'not running' AS check, tenant_id, (counted & ` + runningCountersSQL + `)::smallint AS counter, '' AS name, count(*) AS stored, 0::bigint AS found
FROM jobs WHERE state <> 'running' AND counted & ` + runningCountersSQL + ` <> 0
GROUP BY tenant_id, counted & ` + runningCountersSQL

// wrongLaneSQL finds jobs in a lane of another tenant, queue or type: no claim would find them.
const wrongLaneSQL = `
SELECT 'lane' AS check, j.tenant_id, 0::smallint AS counter, j.queue AS name, 0::bigint AS stored, count(*) AS found
FROM jobs j
WHERE NOT EXISTS (SELECT FROM lanes l WHERE l.id = j.lane_id AND l.tenant_id = j.tenant_id AND l.queue = j.queue AND l.type = j.type
                    AND l.capped_user IN ('', COALESCE(j.user_id, '')))
GROUP BY j.tenant_id, j.queue`

// Verify recounts all tenants' counts and checks the other invariants between the tables. It reads
// everything, with the planner's defaults, and changes nothing.
func (s *Counts) Verify(ctx context.Context) ([]Drift, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	scan := func(row pgx.CollectableRow) (Drift, error) {
		var d Drift
		var owner tenant.ID
		err := row.Scan(&d.Check, &owner, &d.Key.Counter, &d.Key.Name, &d.Stored, &d.Found)
		d.Key.Tenant = owner
		return d, err
	}
	var drifts []Drift
	err := s.inReport(ctx, func(tx pgx.Tx) error {
		for _, sql := range []string{countDriftSQL, uncountedSQL, staleBitsSQL, wrongLaneSQL} {
			rows, err := tx.Query(ctx, sql)
			if err != nil {
				return err
			}
			found, err := pgx.CollectRows(rows, scan)
			if err != nil {
				return err
			}
			drifts = append(drifts, found...)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("caps: verify: %w", store.NotApplied(err))
	}
	return drifts, nil
}

// defaultPlansSQL resets the planner settings for one transaction.
const defaultPlansSQL = `
SELECT set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true),
       set_config('enable_bitmapscan', 'on', true)`

// inReport is InTx for statements that read much and are best planned freely.
func (s *Counts) inReport(ctx context.Context, work func(pgx.Tx) error) error {
	return s.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, defaultPlansSQL); err != nil {
			return err
		}
		return work(tx)
	})
}
