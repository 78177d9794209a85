package gate

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/budget"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// lookSQL reads what a job at the gate of a key waits for.
const lookSQL = `
SELECT (SELECT count(*) FROM (SELECT ` + pastGate + ` LIMIT 10001) AS c) AS past,
  COALESCE((SELECT id ` + pastGate + ` LIMIT 1), (SELECT id ` + inOrder + ` ` + gateOrder + ` LIMIT 1)) AS first,
  (SELECT id ` + dead + ` ORDER BY created_at, id LIMIT 1) AS dead,
  (SELECT min(due_at) FROM key_checks AS c WHERE c.due_at > statement_timestamp() AND c.tenant_id = asked.tenant_id AND c.queue = asked.queue AND asked.key = ANY(c.keys)) AS due
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

// lookLineSQL reads the budget that a job waits for, and its place in the line.
const lookLineSQL = `
SELECT l.tenant_id, l.budget, l.subject, l.cost,
  (SELECT count(*) FROM (
     SELECT FROM budget_line AS b
     WHERE b.tenant_id = l.tenant_id AND b.budget = l.budget AND b.subject = l.subject AND b.passed_at IS NULL AND (b.rank, b.turn, b.job_id) < (l.rank, l.turn, l.job_id)
     LIMIT 10001) AS c) AS ahead
FROM budget_line AS l
WHERE l.job_id = @id AND l.tenant_id = @tenant_id AND l.passed_at IS NULL`

// Wait is what a job waits for in the line of a budget.
type Wait struct {
	*budget.Account
	// Cost is what an attempt reserves, Ahead the jobs before it, 10,001 at most.
	Cost, Ahead int64
}

// LookLine reads which budget a job waits for; nil for none.
func (g *Gate) LookLine(ctx context.Context, owner tenant.ID, id uuid.UUID) (*Wait, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	conn, err := g.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	fail := func(err error) (*Wait, error) {
		return nil, fmt.Errorf("gate: look: %w", store.NotApplied(store.Classify(err)))
	}
	rows, err := conn.Query(ctx, lookLineSQL, store.Args{"id": id, "tenant_id": owner})
	if err != nil {
		return fail(err)
	}
	type row struct {
		TenantID        tenant.ID
		Budget, Subject string
		Cost, Ahead     int64
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[row])
	if err != nil {
		return fail(err)
	}
	if len(found) == 0 {
		return nil, nil //nolint:nilnil // it waits for none
	}
	ref := budget.Ref{Tenant: owner, Name: found[0].Budget, Subject: found[0].Subject}
	accounts, err := budget.Load(ctx, conn, []budget.Ref{ref})
	if err != nil {
		return fail(err)
	}
	if accounts[ref] == nil {
		return nil, nil //nolint:nilnil // deleted meanwhile
	}
	return &Wait{Account: accounts[ref], Cost: found[0].Cost, Ahead: found[0].Ahead}, nil
}
