package dependency

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/ledger"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// FollowUp is what the end of a job still has to do: look for children that wait for it.
type FollowUp struct {
	Tenant tenant.ID
	Job    uuid.UUID
	// State is terminal, or job.Removed.
	State    job.State
	Redrives int32
}

const appendSQL = `
INSERT INTO follow_ups (tenant_id, job_id, state, redrives, ended_at)
SELECT tenant_id, job_id, state, redrives, statement_timestamp()
FROM unnest(@tenants::uuid[], @jobs::uuid[], @states::text[], @redrives::integer[]) AS f(tenant_id, job_id, state, redrives)
-- the follow-ups of one job are worked off by their ids
ORDER BY job_id`

// Append queues the statement that stores follow-ups.
func Append(batch *pgx.Batch, followUps []FollowUp) {
	if len(followUps) == 0 {
		return
	}
	n := len(followUps)
	tenants, jobs, states, redrives := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]string, n), make([]int32, n)
	for i, f := range followUps {
		tenants[i], jobs[i], states[i], redrives[i] = f.Tenant, f.Job, string(f.State), f.Redrives
	}
	batch.Queue(appendSQL, store.Args{"tenants": tenants, "jobs": jobs, "states": states, "redrives": redrives})
}

// RemovedSQL ends a statement that begins `WITH gone AS (DELETE FROM dead_letters … RETURNING ` +
// RemovedColumns + `)`: the ledger has an entry, the children that a dead letter holds are told that no
// redrive can come, and its key, which it may hold, is checked. It gives id and told, whether something was appended.
const RemovedSQL = ledger.DiscardedSQL + `, told AS (
  INSERT INTO follow_ups (tenant_id, job_id, state, redrives, ended_at)
  SELECT tenant_id, id, 'removed', redrives, statement_timestamp() FROM gone WHERE has_dependents
), checked AS (
  INSERT INTO key_checks (tenant_id, queue, keys) SELECT tenant_id, queue, array_agg(DISTINCT key) FROM gone WHERE key IS NOT NULL GROUP BY tenant_id, queue
)
SELECT id, has_dependents OR key IS NOT NULL AS told FROM gone`

// RemovedColumns are what RemovedSQL takes from gone.
const RemovedColumns = `id, tenant_id, has_dependents, redrives, key, died_at, ` + ledger.LeftColumns

// Gone is a row of RemovedSQL.
type Gone struct {
	ID   uuid.UUID
	Told bool
}

// IDs lists what RemovedSQL has deleted, and says whether a follow-up was appended.
func IDs(rows []Gone) (ids []uuid.UUID, told bool) {
	ids = make([]uuid.UUID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
		told = told || row.Told
	}
	return ids, told
}

// WaitingTenants lists the tenants that have follow-ups.
func (e *Edges) WaitingTenants(ctx context.Context) ([]tenant.ID, error) {
	tenants, err := store.WaitingTenants(ctx, e.Store, "follow_ups")
	if err != nil {
		return nil, fmt.Errorf("dependency: waiting tenants: %w", err)
	}
	return tenants, nil
}

const oldestSQL = `
SELECT statement_timestamp() - min(ended_at) FROM follow_ups`

// OldestFollowUp is the age of the oldest follow-up; 0 where there is none.
func (e *Edges) OldestFollowUp(ctx context.Context) (time.Duration, error) {
	ages, err := store.Query(ctx, e.Store, pgx.RowTo[*time.Duration], oldestSQL, store.Args{})
	if err != nil {
		return 0, fmt.Errorf("dependency: oldest follow-up: %w", store.NotApplied(err))
	}
	if ages[0] == nil {
		return 0, nil
	}
	return max(*ages[0], 0), nil
}
