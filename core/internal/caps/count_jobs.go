package caps

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// A count is settled when every job that belongs to it is in it. Until then, for a minute after its
// cap was set or changed, the counter may be too low, and the jobs themselves are counted: up to
// the limit, so that the cost depends on the cap, not on the backlog.

const trueActiveSQL = `
SELECT count(*) FROM (SELECT FROM jobs WHERE tenant_id = @tenant_id AND ` + tenant.OwnQueueSQL + ` LIMIT @most) AS c`

const trueUserActiveSQL = `
SELECT count(*) FROM (SELECT FROM jobs WHERE tenant_id = @tenant_id AND user_id = @name LIMIT @most) AS c`

// By lane, because no index has the queue.
const trueQueueActiveSQL = `
WITH l AS (
  SELECT id FROM lanes WHERE tenant_id = @tenant_id AND queue = @name
)
SELECT count(*) FROM (
  (SELECT FROM l CROSS JOIN LATERAL (SELECT FROM jobs WHERE state = 'queued' AND lane_id = l.id LIMIT @most) j LIMIT @most)
  UNION ALL
  (SELECT FROM l CROSS JOIN LATERAL (SELECT FROM jobs WHERE state IN ('blocked', 'scheduled', 'waiting') AND lane_id = l.id LIMIT @most) j LIMIT @most)
  UNION ALL
  (SELECT FROM jobs WHERE state = 'running' AND tenant_id = @tenant_id AND queue = @name LIMIT @most)
) AS c`

// Running jobs are bounded by what workers can hold.
const (
	trueRunningSQL = `
SELECT count(*) FROM (SELECT FROM jobs WHERE state = 'running' AND tenant_id = @tenant_id AND ` + tenant.OwnQueueSQL + ` LIMIT @most) AS c`
	trueUserRunningSQL = `
SELECT count(*) FROM (SELECT FROM jobs WHERE state = 'running' AND tenant_id = @tenant_id AND user_id = @name LIMIT @most) AS c`
	trueQueueRunningSQL = `
SELECT count(*) FROM (SELECT FROM jobs WHERE state = 'running' AND tenant_id = @tenant_id AND queue = @name LIMIT @most) AS c`
	trueTypeRunningSQL = `
SELECT count(*) FROM (SELECT FROM jobs WHERE state = 'running' AND tenant_id = @tenant_id AND queue || '/' || type = @name LIMIT @most) AS c`
	trueAllRunningSQL = `
SELECT count(*) FROM (SELECT FROM jobs WHERE state = 'running' AND ` + tenant.OwnQueueSQL + ` LIMIT @most) AS c`
)

// trueCount gives the statement that counts a key's jobs, and its arguments.
func trueCount(key CountKey, most int64) (string, store.Args) {
	args := store.Args{"tenant_id": key.Tenant, "most": most}
	switch key.Counter {
	case ActiveTenant:
		return trueActiveSQL, args
	case RunningTenant:
		return trueRunningSQL, args
	case RunningAll:
		return trueAllRunningSQL, store.Args{"most": most}
	default:
		args["name"] = key.Name
	}
	return map[Counter]string{
		ActiveUser: trueUserActiveSQL, ActiveQueue: trueQueueActiveSQL,
		RunningUser: trueUserRunningSQL, RunningQueue: trueQueueRunningSQL, RunningType: trueTypeRunningSQL,
	}[key.Counter], args
}

// batcher is a connection or a transaction.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Exact counts the jobs of counts that are not settled, where a cap may be full.
func (t *Tally) Exact(ctx context.Context, db batcher, caps ...[]Cap) error {
	return t.Recount(ctx, db, t.mayFill, caps...)
}

const (
	// minJobSize is below the size in bytes of any row of jobs; a test checks it.
	minJobSize = 128
	// maxTaken is above the number of jobs that one transaction adds to a count.
	maxTaken = 10_000
)

// mayFill says whether there could be as many jobs as the limit allows. The size of the table
// bounds its rows, of all tenants and states, uncommitted ones included; most caps are far above
// that.
func (t *Tally) mayFill(limit int64) bool {
	unknown := t.jobsSize == 0 // an empty table is counted at once
	return unknown || t.jobsSize/minJobSize+maxTaken >= limit
}

// Recount counts the jobs of all caps that are not settled, and whose limit matters.
func (t *Tally) Recount(ctx context.Context, db batcher, matters func(limit int64) bool, caps ...[]Cap) error {
	limits := map[CountKey]int64{}
	for _, some := range caps {
		for _, c := range some {
			if counted, ok := t.Counts[c.CountKey]; ok && !counted.settled && matters(c.Limit) {
				limits[c.CountKey] = max(limits[c.CountKey], c.Limit+1)
			}
		}
	}
	if len(limits) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	for key, most := range limits {
		sql, args := trueCount(key, most)
		batch.Queue(sql, args).QueryRow(func(row pgx.Row) error {
			var n int64
			err := row.Scan(&n)
			t.Counts[key].used = max(t.Counts[key].used, n)
			return err
		})
	}
	return db.SendBatch(ctx, batch).Close()
}
