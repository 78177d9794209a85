package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// lookSQL reads what a job at the gate of a key waits for.
const lookSQL = `
SELECT (SELECT count(*) FROM (SELECT ` + pastGate + ` LIMIT 10001) AS c) AS past,
  COALESCE((SELECT id ` + pastGate + ` LIMIT 1), (SELECT id ` + inOrder + ` ` + gateOrder + ` LIMIT 1)) AS first,
  (SELECT id ` + dead + ` ORDER BY created_at, id LIMIT 1) AS dead,
  (SELECT min(due_at) FROM key_checks AS c WHERE c.due_at > statement_timestamp() AND c.tenant_id = asked.tenant_id AND c.queue = asked.queue AND c.key = asked.key) AS due
FROM (SELECT @tenant_id::uuid AS tenant_id, @queue::text AS queue, @key::text AS key) AS asked`

// Line is what is before a job at the gate of its key.
type Line struct {
	// Past are the jobs past the gate, 10,001 at most.
	Past int64
	// First is the job whose turn it is by order, Dead the first dead letter of the key; nil for none.
	First, Dead *uuid.UUID
	// Due is when the rate of the key lets the next job pass; nil where none waits for that.
	Due *time.Time
}

// Look reads what the jobs at a gate wait for.
func (g *Gate) Look(ctx context.Context, key Key) (Line, error) {
	args := store.Args{"tenant_id": key.Tenant, "queue": key.Queue, "key": key.Key}
	found, err := store.Query(store.WithClass(ctx, store.ClassLists), g.Store, pgx.RowToStructByName[Line], lookSQL, args)
	if err != nil {
		return Line{}, fmt.Errorf("gate: look: %w", store.NotApplied(err))
	}
	return found[0], nil
}
