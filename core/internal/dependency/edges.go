package dependency

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Edges has the statements.
type Edges struct {
	*store.Store
	appended atomic.Pointer[func()]
}

// New makes them.
func New(s *store.Store) *Edges { return &Edges{Store: s} }

// OnFollowUp sets what is called after each commit that has appended follow-ups. It must not block.
func (e *Edges) OnFollowUp(call func()) { e.appended.Store(&call) }

// Appended says that a commit has appended follow-ups.
func (e *Edges) Appended() {
	if call := e.appended.Load(); call != nil {
		(*call)()
	}
}

// Edge says that a child comes after a parent.
type Edge struct {
	Tenant   tenant.ID
	Parent   uuid.UUID
	Child    uuid.UUID
	OnFailed job.OnFailed
	// Redrives are the parent's when the edge is made.
	Redrives int32
	// Resolved: the parent ended before, and the child does not wait for it.
	Resolved bool
}

// ClaimedSize is about a parent's size in the claim of its child, in bytes. A job's size has it for each
// parent, so that a claim's answer stays within its bytes.
const ClaimedSize = 256

const addSQL = `
INSERT INTO dependencies (tenant_id, parent_id, child_id, on_failed, redrives, resolved_at)
SELECT tenant_id, parent_id, child_id, on_failed, redrives, CASE WHEN resolved THEN statement_timestamp() END
FROM unnest(@tenants::uuid[], @parents::uuid[], @children::uuid[], @policies::text[], @redrives::integer[], @resolved::boolean[])
     AS e(tenant_id, parent_id, child_id, on_failed, redrives, resolved)`

// Add queues the statement that stores edges.
func Add(batch *pgx.Batch, edges []Edge) {
	if len(edges) == 0 {
		return
	}
	n := len(edges)
	tenants, parents, children := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n)
	policies, redrives, resolved := make([]string, n), make([]int32, n), make([]bool, n)
	for i, e := range edges {
		tenants[i], parents[i], children[i] = e.Tenant, e.Parent, e.Child
		policies[i], redrives[i], resolved[i] = string(e.OnFailed), e.Redrives, e.Resolved
	}
	batch.Queue(addSQL, store.Args{
		"tenants": tenants, "parents": parents, "children": children, "policies": policies, "redrives": redrives, "resolved": resolved,
	})
}

// Key names a job of a tenant.
type Key struct {
	Tenant tenant.ID
	ID     uuid.UUID
}

// Parent is a job that another is to come after, as it is found under a lock.
type Parent struct {
	ID       uuid.UUID
	TenantID tenant.ID
	UserID   *string
	State    job.State
	Redrives int32
	// EndedAt is nil for a live job.
	EndedAt *time.Time
}

// parentsSQL are the pairs asked for. It is not a join, so that rows are visited, and locked, in the
// order of their ids; see heldSQL in package jobs.
const parentsSQL = `id = ANY(@ids::uuid[])
  AND ((id, tenant_id) IN (SELECT * FROM unnest(@ids::uuid[], @tenants::uuid[]))) IS TRUE`

// The lock is the one of an UPDATE: it waits for a statement that ends the job, and such a statement
// waits for it. Flagged rows are locked too, so that an end after this commit sees the new edges.
const (
	lockLiveSQL = `
SELECT id, tenant_id, user_id, state, redrives, NULL::timestamptz AS ended_at FROM jobs
WHERE ` + parentsSQL + `
ORDER BY id
FOR NO KEY UPDATE`

	flagLiveSQL = `
UPDATE jobs SET has_dependents = true WHERE ` + parentsSQL + ` AND NOT has_dependents`

	lockDeadSQL = `
SELECT id, tenant_id, user_id, 'dead_letter' AS state, redrives, died_at AS ended_at FROM dead_letters
WHERE ` + parentsSQL + `
ORDER BY id
FOR NO KEY UPDATE`

	flagDeadSQL = `
UPDATE dead_letters SET has_dependents = true WHERE ` + parentsSQL + ` AND NOT has_dependents`

	finishedSQL = `
SELECT id, tenant_id, user_id, state, redrives, finished_at AS ended_at FROM finished_jobs
WHERE finished_at >= @since AND ` + parentsSQL
)

// LockParents finds, locks and flags the jobs that others are to come after, until the transaction
// ends. Those that are not in the answer do not exist, or are another tenant's.
func LockParents(ctx context.Context, tx pgx.Tx, wanted []Key) (map[Key]Parent, error) {
	found := make(map[Key]Parent, len(wanted))
	// A dead letter that is redriven between two of the statements is in neither. Each further
	// round needs another such coincidence; without one the second finds nothing more.
	const rounds = 3
	for round := 0; round < rounds && len(wanted) > 0; round++ {
		if err := lockParents(ctx, tx, wanted, found); err != nil {
			return nil, fmt.Errorf("dependency: lock parents: %w", err)
		}
		var missing []Key
		for _, key := range wanted {
			if _, ok := found[key]; !ok {
				missing = append(missing, key)
			}
		}
		wanted = missing
	}
	return found, nil
}

func lockParents(ctx context.Context, tx pgx.Tx, wanted []Key, found map[Key]Parent) error {
	ids, tenants := make([]uuid.UUID, len(wanted)), make([]uuid.UUID, len(wanted))
	for i, key := range wanted {
		ids[i], tenants[i] = key.ID, key.Tenant
	}
	args := store.Args{"ids": ids, "tenants": tenants}
	collect := func(rows pgx.Rows) error {
		parents, err := pgx.CollectRows(rows, pgx.RowToStructByName[Parent])
		for _, parent := range parents {
			found[Key{parent.TenantID, parent.ID}] = parent
		}
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue(lockLiveSQL, args).Query(collect)
	batch.Queue(flagLiveSQL, args)
	batch.Queue(lockDeadSQL, args).Query(collect)
	batch.Queue(flagDeadSQL, args)
	batch.Queue(finishedSQL, store.Args{"ids": ids, "tenants": tenants, "since": retention.Since(ids...)}).Query(collect)
	return tx.SendBatch(ctx, batch).Close()
}
