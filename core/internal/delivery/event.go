package delivery

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	lockEventsSQL = `
SELECT event_id, webhook, workflow_id, statement_timestamp() AS now
FROM webhook_events
WHERE event_id = ANY(@ids::bigint[])
ORDER BY event_id
FOR UPDATE SKIP LOCKED`

	jobsSQL = `
SELECT event_id, id, tenant_id, ` + webhook.SettledColumns + `, NULL::json AS payload, attempt, last_error, NULL::uuid AS outcome_lease_id,
       NULL::bytea AS outcome_hash, NULL::json AS outcome_answer, state, NULL::uuid AS lease_id, NULL::timestamptz AS lease_expires_at, result,
       reason, finished_at
FROM webhook_events
WHERE event_id = ANY(@ids::bigint[]) AND id IS NOT NULL`
)

// event is an event that this transaction has locked.
type event struct {
	EventID    int64
	Webhook    *string
	WorkflowID *uuid.UUID
	// Now is PostgreSQL's clock.
	Now time.Time

	// job is nil for an event of a workflow.
	job   *read.Row
	shown api.Job
}

type jobOfEvent struct {
	EventID int64
	read.Row
}

// lockEvents locks events, without those that others have locked, and reads their jobs.
func lockEvents(ctx context.Context, tx pgx.Tx, ids []int64) ([]*event, error) {
	var events []*event
	jobs := map[int64]*read.Row{}
	args := store.Args{"ids": ids}
	batch := &pgx.Batch{}
	batch.Queue(lockEventsSQL, args).Query(func(rows pgx.Rows) (err error) {
		events, err = pgx.CollectRows(rows, pgx.RowToAddrOfStructByNameLax[event])
		return err
	})
	batch.Queue(jobsSQL, args).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[jobOfEvent])
		for _, one := range found {
			jobs[one.EventID] = &one.Row
		}
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	linked := map[uuid.UUID]*api.JobSummary{}
	for _, e := range events {
		if e.job = jobs[e.EventID]; e.job == nil {
			continue
		}
		e.shown = e.job.Job()
		if e.job.Linked {
			linked[e.job.ID] = &e.shown.JobSummary
		}
	}
	return events, read.AddParentsIn(ctx, tx, "", linked)
}

// body is the event as it is delivered.
func (e *event) body() api.WebhookEvent {
	kind := map[string]string{
		api.StateCompleted: api.EventJobCompleted, api.StateDeadLetter: api.EventJobDeadLetter, api.StateCancelled: api.EventJobCancelled,
	}[e.job.State]
	return api.WebhookEvent{Type: kind, Timestamp: api.At(*e.job.FinishedAt), Data: api.WebhookEventData{Job: &api.EndedJob{
		JobSummary: e.shown.JobSummary, Result: e.shown.Result, Checkpoint: e.shown.Checkpoint, LastError: e.shown.LastError,
	}}}
}
