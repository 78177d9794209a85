package ledger

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const entryColumns = `tenant_id, day, type, user_id, accepted, completed, dead_letter, redriven, cancelled, discarded, running_ms, failed_running_ms`

// LeftColumns are what the statements of this file take from the rows that were deleted, besides tenant_id.
const LeftColumns = `queue, type, user_id, created_at`

// DiscardedSQL is part of a statement that begins `WITH gone AS (DELETE FROM dead_letters … RETURNING tenant_id, died_at, ` +
// LeftColumns + `)`: these dead letters are deleted for good.
const DiscardedSQL = `, booked AS (
  INSERT INTO ledger_entries (` + entryColumns + `)
  SELECT tenant_id, (at AT TIME ZONE 'UTC')::date, type, COALESCE(user_id, ''), sum(accepted), 0, sum(dead), 0, 0, sum(discarded), 0, 0
  FROM gone CROSS JOIN LATERAL (VALUES (created_at, 1, 0, 0), (died_at, 0, 1, 0), (statement_timestamp(), 0, 0, 1)) AS entry(at, accepted, dead, discarded)
  WHERE ` + tenant.OwnQueueSQL + `
  GROUP BY 1, 2, 3, 4
)`

// RedrivenSQL is the same for dead letters that become live jobs again, named redriven.
const RedrivenSQL = `, booked AS (
  INSERT INTO ledger_entries (` + entryColumns + `)
  SELECT tenant_id, (at AT TIME ZONE 'UTC')::date, type, COALESCE(user_id, ''), 0, 0, sum(dead), sum(again), 0, 0, 0, 0
  FROM redriven CROSS JOIN LATERAL (VALUES (died_at, 1, 0), (statement_timestamp(), 0, 1)) AS entry(at, dead, again)
  WHERE ` + tenant.OwnQueueSQL + `
  GROUP BY 1, 2, 3, 4
)`

// DeletedSQL is the same for finished jobs, with their state, started_at and finished_at.
const DeletedSQL = `, booked AS (
  INSERT INTO ledger_entries (` + entryColumns + `)
  SELECT tenant_id, (at AT TIME ZONE 'UTC')::date, type, COALESCE(user_id, ''), sum(accepted), sum(completed), 0, 0, sum(cancelled), 0, sum(ran), 0
  FROM gone CROSS JOIN LATERAL (
    VALUES (created_at, 1, 0, 0, 0),
           (finished_at, 0, (state = 'completed')::integer, (state = 'cancelled')::integer, ` + ranSQL + `)
  ) AS entry(at, accepted, completed, cancelled, ran)
  WHERE ` + tenant.OwnQueueSQL + `
  GROUP BY 1, 2, 3, 4
)`

// ranSQL is how long the attempt ran that completed a job, in milliseconds.
const ranSQL = `CASE WHEN state = 'completed' AND started_at IS NOT NULL
            THEN GREATEST(round(extract(epoch FROM finished_at - started_at) * 1000), 0) ELSE 0 END::bigint`

// failedSQL is a statement beside the one that ends attempts that failed: how long those of a tenant, type and user ran.
const failedSQL = `
INSERT INTO ledger_entries (` + entryColumns + `)
SELECT f.tenant_id, (statement_timestamp() AT TIME ZONE 'UTC')::date, f.type, f.user_id, 0, 0, 0, 0, 0, 0, 0, f.ran
FROM unnest(@tenants::uuid[], @types::text[], @users::text[], @ran::bigint[]) AS f(tenant_id, type, user_id, ran)`

// Failed is how long attempts ran that failed, in milliseconds.
type Failed map[failedKey]int64

type failedKey struct {
	tenant     tenant.ID
	name, user string
}

// Add adds an attempt of a tenant's type and user.
func (f Failed) Add(owner tenant.ID, queue, jobType string, user *string, ran time.Duration) {
	if !api.SystemQueue(queue) { // as tenant.OwnQueueSQL
		f[failedKey{owner, jobType, store.OrElse(user, "")}] += ran.Round(time.Millisecond).Milliseconds()
	}
}

// Append books them, in the transaction that ends the attempts.
func (f Failed) Append(batch *pgx.Batch) {
	if len(f) == 0 {
		return
	}
	tenants, types, users, ran := make([]uuid.UUID, 0, len(f)), make([]string, 0, len(f)), make([]string, 0, len(f)), make([]int64, 0, len(f))
	for key, ms := range f {
		tenants, types, users, ran = append(tenants, key.tenant), append(types, key.name), append(users, key.user), append(ran, ms)
	}
	batch.Queue(failedSQL, store.Args{"tenants": tenants, "types": types, "users": users, "ran": ran})
}
