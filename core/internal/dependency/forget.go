package dependency

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// forgetEdgesSQL reads the next edges of jobs that were made longer ago than the retention of finished
// ones, and deletes those of jobs that no longer exist. An id is a UUID v7: the order is that of
// time.
const forgetEdgesSQL = `
WITH chunk AS (
  SELECT child_id, parent_id FROM dependencies
  WHERE (child_id, parent_id) > (@child::uuid, @parent::uuid)
    AND child_id < (lpad(to_hex((extract(epoch FROM statement_timestamp() - @retention::interval) * 1000)::bigint), 12, '0')
                    || '70008000000000000000')::uuid
  ORDER BY child_id, parent_id
  LIMIT @batch
), forgotten AS (
  DELETE FROM dependencies USING chunk
  WHERE dependencies.child_id = chunk.child_id AND dependencies.parent_id = chunk.parent_id
    AND dependencies.tenant_id <> ALL(` + store.MovingSQL + `)
    AND NOT EXISTS (SELECT FROM jobs WHERE id = chunk.child_id)
    AND NOT EXISTS (SELECT FROM dead_letters WHERE id = chunk.child_id)
    AND NOT EXISTS (SELECT FROM finished_jobs WHERE id = chunk.child_id)
  RETURNING 1
)
SELECT (SELECT count(*) FROM chunk) AS seen, (SELECT count(*) FROM forgotten) AS forgotten, last.child_id AS child, last.parent_id AS parent
FROM (VALUES (1)) AS one LEFT JOIN (SELECT child_id, parent_id FROM chunk ORDER BY child_id DESC, parent_id DESC LIMIT 1) AS last ON true`

// EdgePlace is the place of an edge in the order of ForgetEdges; the zero value is the beginning.
type EdgePlace struct{ child, parent uuid.UUID }

// ForgottenEdges is the result of ForgetEdges.
type ForgottenEdges struct {
	Seen, Forgotten int
	Child, Parent   *uuid.UUID
}

// Next is where the next batch begins.
func (f *ForgottenEdges) Next() EdgePlace {
	if f.Child == nil {
		return EdgePlace{}
	}
	return EdgePlace{*f.Child, *f.Parent}
}

// ForgetEdges deletes the edges to the parents of jobs, of any tenants, that no longer exist. It reads at
// most batch edges after a place. retention is that of finished jobs.
func (e *Edges) ForgetEdges(ctx context.Context, retention time.Duration, after EdgePlace, batch int) (ForgottenEdges, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, e.Store, pgx.RowToStructByName[ForgottenEdges], forgetEdgesSQL,
		store.Args{"retention": retention, "child": after.child, "parent": after.parent, "batch": batch})
	if err != nil {
		return ForgottenEdges{}, fmt.Errorf("dependency: forget edges: %w", err)
	}
	return rows[0], nil
}
