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
// RemovedColumns + `)`: the ledger has an entry, and the children that a dead letter holds are told that no
// redrive can come. It gives id and told, whether there were children.
const RemovedSQL = ledger.DiscardedSQL + `, told AS (
  INSERT INTO follow_ups (tenant_id, job_id, state, redrives, ended_at)
  SELECT tenant_id, id, 'removed', redrives, statement_timestamp() FROM gone WHERE has_dependents
)
SELECT id, has_dependents AS told FROM gone`

// RemovedColumns are what RemovedSQL takes from gone.
const RemovedColumns = `id, tenant_id, has_dependents, redrives, died_at, ` + ledger.LeftColumns

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

// waitingTenantsSQL jumps from tenant to tenant by the index: as many look-ups as there are tenants,
// however many follow-ups one of them has.
const waitingTenantsSQL = `
WITH RECURSIVE tenants AS (
  (SELECT tenant_id FROM follow_ups ORDER BY tenant_id LIMIT 1)
  UNION ALL
  SELECT next.tenant_id
  FROM tenants CROSS JOIN LATERAL (
    SELECT tenant_id FROM follow_ups WHERE tenant_id > tenants.tenant_id ORDER BY tenant_id LIMIT 1) AS next
)
SELECT tenant_id FROM tenants`

// WaitingTenants lists the tenants that have follow-ups.
func (e *Edges) WaitingTenants(ctx context.Context) ([]tenant.ID, error) {
	tenants, err := store.Query(ctx, e.Store, pgx.RowTo[tenant.ID], waitingTenantsSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("dependency: waiting tenants: %w", store.NothingChanged(err))
	}
	return tenants, nil
}

const oldestSQL = `
SELECT statement_timestamp() - min(ended_at) FROM follow_ups`

// OldestFollowUp is the age of the oldest follow-up; 0 where there is none.
func (e *Edges) OldestFollowUp(ctx context.Context) (time.Duration, error) {
	ages, err := store.Query(ctx, e.Store, pgx.RowTo[*time.Duration], oldestSQL, store.Args{})
	if err != nil {
		return 0, fmt.Errorf("dependency: oldest follow-up: %w", store.NothingChanged(err))
	}
	if ages[0] == nil {
		return 0, nil
	}
	return max(*ages[0], 0), nil
}

// missedSQL reads the next parents that a child waits for. Those that have ended, without a
// follow-up, were ended by a binary that knows none; theirs is appended. A statement has one snapshot, in
// which a parent's end and its follow-up, and an edge's resolution and the follow-up's deletion, are
// one.
const missedSQL = `
WITH RECURSIVE waiting AS (
  (SELECT parent_id, 1 AS n FROM dependencies
   WHERE resolved_at IS NULL AND parent_id > @after::uuid ORDER BY parent_id LIMIT 1)
  UNION ALL
  SELECT next.parent_id, n + 1
  FROM waiting CROSS JOIN LATERAL (
    SELECT parent_id FROM dependencies
    WHERE resolved_at IS NULL AND parent_id > waiting.parent_id ORDER BY parent_id LIMIT 1) AS next
  WHERE n < @batch
), ended AS MATERIALIZED (
  SELECT parent_id FROM waiting
  WHERE NOT EXISTS (SELECT FROM jobs WHERE id = parent_id) AND NOT EXISTS (SELECT FROM follow_ups WHERE job_id = parent_id)
), known AS (
  SELECT id, state, redrives FROM finished_jobs WHERE id = ANY(ARRAY(SELECT parent_id FROM ended))
  UNION ALL
  SELECT id, 'dead_letter', redrives FROM dead_letters WHERE id = ANY(ARRAY(SELECT parent_id FROM ended))
), owed AS (
  SELECT parent_id, edge.tenant_id, COALESCE(known.state, 'removed') AS state, COALESCE(known.redrives, edge.redrives) AS redrives
  FROM ended LEFT JOIN known ON known.id = parent_id
  -- a child that a dead letter holds, or that died too, waits as it should
  CROSS JOIN LATERAL (
    SELECT tenant_id, redrives FROM dependencies
    WHERE dependencies.parent_id = ended.parent_id AND resolved_at IS NULL
      AND NOT (known.state IS NOT DISTINCT FROM 'dead_letter' AND (on_failed = 'hold' OR redrives > known.redrives))
    ORDER BY redrives DESC LIMIT 1) AS edge
), appended AS (
  INSERT INTO follow_ups (tenant_id, job_id, state, redrives, ended_at)
  SELECT tenant_id, parent_id, state, GREATEST(redrives, 0), statement_timestamp() FROM owed
)
SELECT (SELECT max(n) FROM waiting) AS read, (SELECT parent_id FROM waiting ORDER BY parent_id DESC LIMIT 1) AS last,
       (SELECT count(*) FROM owed) AS appended`

// Missed is the result of AppendMissed.
type Missed struct {
	// Read counts the parents that were looked at, Last is the last of them; nil for none.
	Read *int
	Last *uuid.UUID
	// Appended counts the follow-ups.
	Appended int
}

// AppendMissed appends the follow-ups that a binary without them has not, for at most batch parents
// after one. Children wait for them, of any tenants. Where Citus distributes the schema, no such binary
// has ever run.
func (e *Edges) AppendMissed(ctx context.Context, after uuid.UUID, batch int) (Missed, error) {
	if e.Distributed() {
		return Missed{}, nil
	}
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), e.Store, pgx.RowToStructByName[Missed], missedSQL, store.Args{"after": after, "batch": batch})
	if err != nil {
		return Missed{}, fmt.Errorf("dependency: missed follow-ups: %w", err)
	}
	if rows[0].Appended > 0 {
		e.Appended()
	}
	return rows[0], nil
}
