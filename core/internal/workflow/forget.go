package workflow

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// forgetSQL reads the next workflows that were made longer ago than the retention of finished jobs, and
// deletes those of which no job is left. An id is a UUID v7: the order is that of time.
const forgetSQL = `
WITH chunk AS (
  SELECT id, tenant_id FROM workflows
  WHERE id > @after::uuid
    AND id < (lpad(to_hex((extract(epoch FROM statement_timestamp() - @retention::interval) * 1000)::bigint), 12, '0')
              || '70008000000000000000')::uuid
  ORDER BY id
  LIMIT @batch
), over AS (
  SELECT id FROM chunk AS w
  WHERE NOT EXISTS (SELECT FROM workflow_jobs CROSS JOIN LATERAL ` + oneSQL + ` WHERE workflow_id = w.id)
    AND tenant_id <> ALL(` + store.MovingSQL + `)
), without AS (
  DELETE FROM workflow_jobs WHERE workflow_id = ANY(ARRAY(SELECT id FROM over))
), forgotten AS (
  DELETE FROM workflows WHERE id = ANY(ARRAY(SELECT id FROM over)) RETURNING 1
)
SELECT (SELECT count(*) FROM chunk) AS seen, (SELECT count(*) FROM forgotten) AS forgotten, (SELECT id FROM chunk ORDER BY id DESC LIMIT 1) AS last`

// Forgotten is the result of Forget.
type Forgotten struct {
	Seen, Forgotten int
	// Last is the last workflow that was read; nil for none.
	Last *uuid.UUID
}

// ForgetWorkflows deletes workflows, of any tenants, of which no job is left. It reads at most batch of them
// after one. retention is that of finished jobs.
func (s *Workflows) ForgetWorkflows(ctx context.Context, retention time.Duration, after uuid.UUID, batch int) (Forgotten, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[Forgotten], forgetSQL,
		store.Args{"retention": retention, "after": after, "batch": batch})
	if err != nil {
		return Forgotten{}, fmt.Errorf("workflow: forget: %w", err)
	}
	return rows[0], nil
}
