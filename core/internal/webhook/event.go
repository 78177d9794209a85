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
	// Job is nil for an event of a workflow; of budget.closed it is the budget, of a state an api.Alert.
	Job        []byte
	FinishedAt time.Time
	// Now is PostgreSQL's clock.
	Now time.Time

	row   *read.Row
	shown api.Job
	// other is what an event has that is not of a job or a workflow; nil for those.
	other *api.WebhookEventData
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
		if err := e.readOther(); err != nil {
			return nil, err
		}
		if e.other != nil {
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

// readOther reads what an event has that is not of a job or a workflow; nil for those.
func (e *event) readOther() (err error) {
	switch {
	case e.Kind == api.EventBudgetClosed:
		e.other = &api.WebhookEventData{Budget: &api.ClosedBudget{}}
		err = json.Unmarshal(e.Job, e.other.Budget)
	case api.IsAlert(e.Kind):
		e.other = &api.WebhookEventData{Alert: &api.Alert{}}
		err = json.Unmarshal(e.Job, e.other.Alert)
	}
	if err != nil {
		return fmt.Errorf("webhook: stored event: %w", err)
	}
	return nil
}

// body is the event as it is delivered.
func (e *event) body() api.WebhookEvent {
	if e.other != nil {
		return api.WebhookEvent{Type: e.Kind, Timestamp: api.At(e.FinishedAt), Data: *e.other}
	}
	return api.WebhookEvent{Type: e.Kind, Timestamp: api.At(e.FinishedAt), Data: api.WebhookEventData{Job: &api.EndedJob{
		JobSummary: e.shown.JobSummary, Result: e.shown.Result, Checkpoint: e.shown.Checkpoint, LastError: e.shown.LastError,
	}}}
}
