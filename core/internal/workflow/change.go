package workflow

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	lockSQL = `
SELECT id FROM workflows AS w WHERE ` + visibleSQL + ` FOR UPDATE`

	refsSQL = `
SELECT ref, job_id FROM workflow_jobs WHERE workflow_id = @id AND ref = ANY(@refs::text[])`

	countEdgesSQL = `
SELECT count(*)
FROM workflow_jobs CROSS JOIN LATERAL (SELECT FROM dependencies WHERE child_id = job_id OFFSET 0) AS edge
WHERE workflow_id = @id`
)

// Held is a workflow that a transaction has locked, so that no other adds to it.
type Held struct {
	api.Workflow
	// Jobs are those of the refs asked for that it has.
	Jobs map[string]uuid.UUID
	// Size counts all of its jobs that are still kept.
	Size int
	// Edges counts the parents of all its jobs.
	Edges int
}

// Lock locks a workflow to which jobs are added, and looks up refs. ErrNotFound where the caller may
// not see it.
func Lock(ctx context.Context, tx pgx.Tx, owner tenant.ID, user string, id uuid.UUID, refs []string) (*Held, error) {
	var found []*Row
	held := &Held{Jobs: map[string]uuid.UUID{}}
	batch := &pgx.Batch{}
	batch.Queue(lockSQL, visibleArgs(owner, user, id))
	// in a later statement than the one that waits for the lock
	batch.Queue(getSQL, visibleArgs(owner, user, id)).Query(func(rows pgx.Rows) (err error) {
		found, err = pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[Row])
		return err
	})
	batch.Queue(refsSQL, store.Args{"id": id, "refs": refs}).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var ref string
			var job uuid.UUID
			if err := rows.Scan(&ref, &job); err != nil {
				return err
			}
			held.Jobs[ref] = job
		}
		return rows.Err()
	})
	batch.Queue(countEdgesSQL, store.Args{"id": id}).QueryRow(func(row pgx.Row) error { return row.Scan(&held.Edges) })
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("workflow: lock: %w", err)
	}
	if len(found) == 0 {
		return nil, store.ErrNotFound
	}
	held.Workflow = found[0].Workflow()
	held.Size = held.Counts.Live() + held.Counts.Ended()
	return held, nil
}

const (
	lockManySQL = `
SELECT id FROM workflows WHERE id = ANY(@ids::uuid[]) AND tenant_id = @tenant_id ORDER BY id FOR UPDATE`

	endedSQL = `
SELECT ` + rowSQL + `, w.delivered_end
FROM workflows AS w ` + countsSQL + `
WHERE w.id = ANY(@ids::uuid[]) AND w.tenant_id = @tenant_id
ORDER BY w.id`
)

// Ended are those of a tenant's workflows that have ended, without those whose end was given before. It locks
// them, so that each end is given once.
func Ended(ctx context.Context, tx pgx.Tx, owner tenant.ID, ids []uuid.UUID) ([]*Row, error) {
	type endedRow struct {
		Row
		DeliveredEnd *time.Time
	}
	var rows []*endedRow
	args := store.Args{"ids": ids, "tenant_id": owner}
	batch := &pgx.Batch{}
	batch.Queue(lockManySQL, args)
	// in a later statement than the one that waits for the lock
	batch.Queue(endedSQL, args).Query(func(found pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(found, pgx.RowToAddrOfStructByName[endedRow])
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("workflow: ended: %w", err)
	}
	var ended []*Row
	for _, row := range rows {
		if row.State != api.WorkflowRunning && row.EndedAt != nil && (row.DeliveredEnd == nil || row.EndedAt.After(*row.DeliveredEnd)) {
			ended = append(ended, &row.Row)
		}
	}
	return ended, nil
}

const deliveredSQL = `
UPDATE workflows SET delivered_end = e.at
FROM unnest(@ids::uuid[], @ends::timestamptz[]) AS e(id, at)
WHERE workflows.id = e.id`

// Delivered queues the statement that records the ends of workflows as given.
func Delivered(batch *pgx.Batch, ended []*Row) {
	if len(ended) == 0 {
		return
	}
	ids, ends := make([]uuid.UUID, len(ended)), make([]time.Time, len(ended))
	for i, row := range ended {
		ids[i], ends[i] = row.ID, *row.EndedAt
	}
	batch.Queue(deliveredSQL, store.Args{"ids": ids, "ends": ends})
}

// RecordCancel records in the audit log that a workflow is cancelled. ErrNotFound where the caller may
// not see it.
func (s *Workflows) RecordCancel(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	found, err := audit.Recorded(ctx, s.Store, owner, pgx.RowTo[uuid.UUID], lockSQL, visibleArgs(owner, user, id), func(found []uuid.UUID) *audit.Event {
		if len(found) == 0 {
			return nil
		}
		return &audit.Event{Tenant: &owner, Action: api.AuditWorkflowCancel, Object: id.String()}
	})
	if err != nil {
		return fmt.Errorf("workflow: cancel: %w", err)
	}
	if len(found) == 0 {
		return store.ErrNotFound
	}
	return nil
}

// uncancelledSQL gives blocked jobs first: a parent that is cancelled before its child might make that
// run.
const uncancelledSQL = `
SELECT job_id FROM workflow_jobs JOIN jobs ON jobs.id = job_id
WHERE workflow_id = @id AND NOT cancel_requested
ORDER BY state <> 'blocked', job_id`

// Uncancelled lists the live jobs of a workflow whose cancel was not requested.
func (s *Workflows) Uncancelled(ctx context.Context, id uuid.UUID) ([]uuid.UUID, error) {
	return s.ids(ctx, uncancelledSQL, store.Args{"id": id})
}

const deadSQL = `
SELECT job_id FROM workflow_jobs JOIN dead_letters ON dead_letters.id = job_id
WHERE workflow_id = @id
ORDER BY job_id`

// DeadLettersOfWorkflow lists the dead letters of a workflow.
func (s *Workflows) DeadLettersOfWorkflow(ctx context.Context, id uuid.UUID) ([]uuid.UUID, error) {
	return s.ids(ctx, deadSQL, store.Args{"id": id})
}

func (s *Workflows) ids(ctx context.Context, sql string, args store.Args) ([]uuid.UUID, error) {
	ids, err := store.Query(store.WithClass(ctx, store.ClassSubmits), s.Store, pgx.RowTo[uuid.UUID], sql, args)
	if err != nil {
		return nil, fmt.Errorf("workflow: jobs: %w", store.NotApplied(err))
	}
	return ids, nil
}
