package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

const lockEventsSQL = `
SELECT event_id, webhook, kind, workflow_id, job, finished_at, statement_timestamp() AS now
FROM webhook_events
WHERE event_id = ANY(@ids::bigint[])
  AND tenant_id <> ALL(` + store.MovingSQL + `)
ORDER BY event_id
FOR UPDATE SKIP LOCKED`

// event is an event that this transaction has locked.
type event struct {
	EventID    int64
	Webhook    *string
	Kind       string
	WorkflowID *uuid.UUID
	// Job is nil for an event of a workflow; of budget.closed it is the budget.
	Job        []byte
	FinishedAt time.Time
	// Now is PostgreSQL's clock.
	Now time.Time

	row    *read.Row
	shown  api.Job
	budget *api.ClosedBudget
}

// lockEvents locks events, without those that others have locked.
func lockEvents(ctx context.Context, tx pgx.Tx, ids []int64) ([]*event, error) {
	rows, err := tx.Query(ctx, lockEventsSQL, store.Args{"ids": ids})
	if err != nil {
		return nil, err
	}
	events, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByNameLax[event])
	if err != nil {
		return nil, err
	}
	linked := map[uuid.UUID]*api.JobSummary{}
	for _, e := range events {
		if e.Job == nil {
			continue
		}
		if e.Kind == api.EventBudgetClosed {
			e.budget = &api.ClosedBudget{}
			if err := json.Unmarshal(e.Job, e.budget); err != nil {
				return nil, fmt.Errorf("webhook: stored event: %w", err)
			}
			continue
		}
		if e.row, err = read.FromJSON(e.Job); err != nil {
			return nil, err
		}
		e.shown = e.row.Job()
		if e.row.Linked {
			linked[e.row.ID] = &e.shown.JobSummary
		}
	}
	return events, read.AddParentsIn(ctx, tx, "", linked)
}

// body is the event as it is delivered.
func (e *event) body() api.WebhookEvent {
	if e.budget != nil {
		return api.WebhookEvent{Type: e.Kind, Timestamp: api.At(e.FinishedAt), Data: api.WebhookEventData{Budget: e.budget}}
	}
	return api.WebhookEvent{Type: e.Kind, Timestamp: api.At(e.FinishedAt), Data: api.WebhookEventData{Job: &api.EndedJob{
		JobSummary: e.shown.JobSummary, Result: e.shown.Result, Checkpoint: e.shown.Checkpoint, LastError: e.shown.LastError,
	}}}
}
