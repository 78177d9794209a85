package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// maxAttempts, retryBase and retryCap make about a day of tries.
	maxAttempts = 16
	retryBase   = 5 * time.Second
	retryCap    = 6 * time.Hour
	// keptFor ends a delivery that waits for its destination's breaker, or for a paused webhook.
	keptFor = 48 * time.Hour

	// eventsPerStep and bytesPerStep bound one transaction.
	eventsPerStep = 100
	bytesPerStep  = 8 << 20
)

// hook is a webhook of the tenant whose events are delivered.
type hook struct {
	Name      string
	Events    []string
	CreatedAt time.Time
}

// Step is some of a tenant's events, to be delivered together.
type Step struct {
	Tenant tenant.ID
	// Lanes are those that the deliveries may need, by their names.
	Lanes map[DeliveryLane]lanes.ID
	ids   []int64
	hooks map[string]hook
	more  bool
}

// DeliveryLane names a lane of a system queue by its webhook and the kind of its events.
type DeliveryLane struct{ Webhook, Kind string }

// Key is the lane's.
func (l DeliveryLane) Key(owner tenant.ID) lanes.Key {
	return lanes.NewKey(owner, api.WebhookQueue(l.Webhook), l.Kind, nil)
}

// eventTenantsSQL jumps from tenant to tenant by the index, as store.WaitingTenants does.
const eventTenantsSQL = `
WITH RECURSIVE tenants AS (
  (SELECT tenant_id FROM webhook_events ORDER BY tenant_id LIMIT 1)
  UNION ALL
  SELECT next.tenant_id
  FROM tenants CROSS JOIN LATERAL (
    SELECT tenant_id FROM webhook_events WHERE tenant_id > tenants.tenant_id ORDER BY tenant_id LIMIT 1) AS next
)
SELECT tenant_id, statement_timestamp() - (SELECT finished_at FROM webhook_events AS e WHERE e.tenant_id = tenants.tenant_id ORDER BY event_id LIMIT 1) AS age
FROM tenants
WHERE tenant_id <> ALL(` + store.MovingNowSQL + `)`

// EventTenant is a tenant that has events, and how long ago the first of them happened.
type EventTenant struct {
	TenantID tenant.ID
	Age      *time.Duration
}

// EventTenants lists the tenants that have events without a delivery.
func (h *Hooks) EventTenants(ctx context.Context) ([]EventTenant, error) {
	tenants, err := store.Query(ctx, h.Store, pgx.RowToStructByName[EventTenant], eventTenantsSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("webhook: tenants with events: %w", store.NotApplied(err))
	}
	return tenants, nil
}

const (
	nextEventsSQL = `
SELECT event_id, webhook, kind, COALESCE(octet_length(job::text), 0) AS size
FROM webhook_events WHERE tenant_id = @tenant_id
ORDER BY event_id
LIMIT @most`

	hooksSQL = `
SELECT name, events, created_at FROM webhooks WHERE tenant_id = @tenant_id AND deleted_at IS NULL`

	// While a delivery is stored, its webhook's are not removed: see RemoveWebhookData.
	lockHooksSQL = hooksSQL + `
ORDER BY name
FOR KEY SHARE`
)

type nextEvent struct {
	EventID int64
	Webhook *string
	Kind    string
	Size    int
}

// NextEvents gives a tenant's first events, and the lanes that their deliveries need, without ids.
func (h *Hooks) NextEvents(ctx context.Context, owner tenant.ID) (Step, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	step := Step{Tenant: owner, Lanes: map[DeliveryLane]lanes.ID{}, hooks: map[string]hook{}}
	events, err := store.Query(ctx, h.Store, pgx.RowToStructByName[nextEvent], nextEventsSQL, store.Args{"tenant_id": owner, "most": eventsPerStep})
	if err != nil || len(events) == 0 {
		return step, wrap(err)
	}
	hooks, err := store.Query(ctx, h.Store, pgx.RowToStructByName[hook], hooksSQL, store.Args{"tenant_id": owner})
	if err != nil {
		return step, wrap(err)
	}
	bytes := 0
	for i, event := range events {
		if bytes += event.Size; i > 0 && bytes > bytesPerStep {
			step.more = true
			break
		}
		step.ids = append(step.ids, event.EventID)
		for _, h := range hooks {
			if event.Webhook != nil && *event.Webhook == h.Name || event.Webhook == nil && h.wants(event.Kind) {
				step.Lanes[DeliveryLane{h.Name, event.Kind}] = 0
			}
		}
	}
	step.more = step.more || len(events) == eventsPerStep
	return step, nil
}

// wants says whether the webhook has a kind of event.
func (h *hook) wants(kind string) bool {
	return slices.Contains(h.Events, kind)
}

func wrap(err error) error {
	if err != nil {
		return fmt.Errorf("webhook: events: %w", err)
	}
	return nil
}

// Delivered is the result of a step.
type Delivered struct {
	Answers []submit.Answer
	// Done counts the events that are gone.
	Done int
	// More says that the tenant may have more.
	More bool
}

const deleteEventsSQL = `
DELETE FROM webhook_events WHERE event_id = ANY(@ids::bigint[])`

// Deliver makes the deliveries of a step's events in one transaction. Events that another core has locked are
// left to it; those of a webhook that is gone are dropped.
func (h *Hooks) Deliver(ctx context.Context, step *Step) (Delivered, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	var made Delivered
	view, err := h.Masks.ViewOfHooks(ctx, step.Tenant)
	if err != nil {
		return Delivered{}, fmt.Errorf("webhook: deliver: %w", err)
	}
	err = h.InTx(ctx, func(tx pgx.Tx) error {
		made = Delivered{More: step.more}
		events, err := lockEvents(ctx, tx, step.ids)
		if err != nil || len(events) == 0 {
			return err
		}
		if err := step.lockHooks(ctx, tx); err != nil {
			return err
		}
		ended, err := endedWorkflows(ctx, tx, step.Tenant, events)
		if err != nil {
			return err
		}
		submissions, done, err := step.submissions(events, ended, func(body *api.WebhookEvent) error { return view.Event(ctx, tx, body) })
		if err != nil {
			return err
		}
		if len(submissions) > 0 {
			if made.Answers, err = submit.Store(ctx, tx, submissions); err != nil {
				return err
			}
			for i := range made.Answers {
				if refused := made.Answers[i].Problem; refused != nil {
					return refused
				}
			}
		}
		last := &pgx.Batch{}
		workflow.Delivered(last, ended)
		last.Queue(deleteEventsSQL, store.Args{"ids": done})
		made.Done = len(done)
		return tx.SendBatch(ctx, last).Close()
	})
	if err != nil {
		return Delivered{}, fmt.Errorf("webhook: deliver: %w", err)
	}
	return made, nil
}

// lockHooks locks the tenant's webhooks.
func (s *Step) lockHooks(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, lockHooksSQL, store.Args{"tenant_id": s.Tenant})
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[hook])
	s.hooks = make(map[string]hook, len(found))
	for _, h := range found {
		s.hooks[h.Name] = h
	}
	return err
}

// lane is the lane of a webhook's deliveries of a kind; false where the webhook has gone, or was made, or got
// this kind, after the step was planned or after the event.
func (s *Step) lane(webhook, kind string, at time.Time) (lanes.ID, bool) {
	h, known := s.hooks[webhook]
	id := s.Lanes[DeliveryLane{webhook, kind}]
	return id, known && id != 0 && !at.Before(h.CreatedAt)
}

// endedWorkflows are the workflows of the events that have ended, each once.
func endedWorkflows(ctx context.Context, tx pgx.Tx, owner tenant.ID, events []*event) ([]*workflow.Row, error) {
	var ids []uuid.UUID
	seen := map[uuid.UUID]bool{}
	for _, e := range events {
		if e.WorkflowID != nil && !seen[*e.WorkflowID] {
			seen[*e.WorkflowID] = true
			ids = append(ids, *e.WorkflowID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return workflow.Ended(ctx, tx, owner, ids)
}

// submissions are the deliveries, masked, and done the events that they are of.
func (s *Step) submissions(events []*event, ended []*workflow.Row, mask func(*api.WebhookEvent) error) (made []submit.Submission, done []int64, err error) {
	for _, e := range events {
		done = append(done, e.EventID)
		if e.row == nil && e.other == nil {
			continue
		}
		var correlationID, traceparent *string
		if e.row != nil {
			correlationID, traceparent = e.row.CorrelationID, e.row.Traceparent
		}
		body := e.body()
		if e.row != nil {
			if err := mask(&body); err != nil {
				return nil, nil, err
			}
		}
		lane, ok := s.lane(*e.Webhook, body.Type, body.Timestamp.Time)
		if !ok {
			continue
		}
		one, err := s.submission(*e.Webhook, lane, body, e.Now, correlationID, traceparent)
		if err != nil {
			return nil, nil, err
		}
		made = append(made, one)
	}
	for _, row := range ended {
		shown := row.Workflow()
		body := api.WebhookEvent{Type: api.EventWorkflowEnded, Timestamp: api.At(*row.EndedAt), Data: api.WebhookEventData{Workflow: &shown}}
		for _, h := range s.hooks {
			lane, ok := s.lane(h.Name, body.Type, *row.EndedAt)
			if !ok || !h.wants(body.Type) {
				continue
			}
			one, err := s.submission(h.Name, lane, body, events[0].Now, nil, nil)
			if err != nil {
				return nil, nil, err
			}
			made = append(made, one)
		}
	}
	return made, done, nil
}

func (s *Step) submission(webhook string, lane lanes.ID, body api.WebhookEvent, now time.Time, correlationID, traceparent *string) (submit.Submission, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return submit.Submission{}, err
	}
	made := NewDelivery(id, webhook, body)
	made.Lane, made.CorrelationID, made.Traceparent = lane, correlationID, traceparent
	made.Deadline = new(now.Add(keptFor))
	return submit.Submission{Tenant: s.Tenant, Jobs: []submit.NewJob{made}}, nil
}

// NewDelivery is a delivery, without its lane.
func NewDelivery(id uuid.UUID, webhook string, body api.WebhookEvent) submit.NewJob {
	retry := job.DefaultRetry()
	retry.Base, retry.Cap = retryBase, retryCap
	metadata := map[string]string{}
	switch {
	case body.Data.Job != nil:
		metadata["job_id"] = body.Data.Job.ID
	case body.Data.Workflow != nil:
		metadata["workflow_id"] = body.Data.Workflow.ID
	case body.Data.Budget != nil:
		metadata["budget"] = body.Data.Budget.Name
	case body.Data.Alert != nil && body.Data.Alert.Name != nil:
		metadata[body.Data.Alert.Of] = *body.Data.Alert.Name
	}
	return submit.NewJob{
		ID: id, Queue: api.WebhookQueue(webhook), Type: body.Type, Priority: api.DefaultPriority, Payload: store.JSON(body),
		Tags: []string{}, Metadata: store.JSON(metadata), MaxAttempts: maxAttempts, Retry: retry,
	}
}
