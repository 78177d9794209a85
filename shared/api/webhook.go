package api

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// Kinds of events of a webhook. WebhookTest is sent on request only.
const (
	EventJobCompleted  = "job.completed"
	EventJobDeadLetter = "job.dead_letter"
	EventJobCancelled  = "job.cancelled"
	EventJobWaiting    = "job.waiting"
	EventWorkflowEnded = "workflow.ended"
	EventBudgetClosed  = "budget.closed"
	EventWebhookTest   = "webhook.test"
)

// WebhookEvents are the kinds of events that a webhook can ask for.
func WebhookEvents() []string { return slices.Clone(eventWords) }

// MaxWebhooks bounds a tenant's webhooks.
const MaxWebhooks = 50

// webhookQueuePrefix begins the names of webhooks' queues. systemQueuePrefix begins those of all system
// queues: no tenant's own queue can have such a name.
const (
	systemQueuePrefix  = "_"
	webhookQueuePrefix = systemQueuePrefix + "webhook."
)

// WebhookQueue is the system queue of a webhook's deliveries.
func WebhookQueue(name string) string { return webhookQueuePrefix + name }

// SystemQueue says whether a queue is one of the system's own. Its jobs count for no cap and cause no events,
// lists show them only when they ask for the queue, and nothing can be submitted to it.
func SystemQueue(name string) bool { return strings.HasPrefix(name, systemQueuePrefix) }

// WebhookOfQueue is the webhook whose deliveries a queue has.
func WebhookOfQueue(queue string) (name string, ok bool) {
	return strings.CutPrefix(queue, webhookQueuePrefix)
}

// ValidQueueToRead says whether s can name a queue, one of the system included, in a filter.
func ValidQueueToRead(s string) bool {
	if name, ok := WebhookOfQueue(s); ok {
		return ValidName(name)
	}
	return ValidName(s)
}

// WebhookRequest sets a webhook; what is absent is the default.
type WebhookRequest struct {
	// URL is https, without user, password or fragment; http only where the operator
	// allows the address.
	URL string `json:"url"`
	// Events are the kinds of events that it delivers.
	Events []string `json:"events" enums:"job.completed,job.dead_letter,job.cancelled,job.waiting,workflow.ended,budget.closed,queue.stalled,queue.unserved,queue.recovered,breaker.opened,breaker.closed,cap.full,schedule.missed,webhook.failing"`
	// Filter selects the jobs; all if absent. It does not apply to workflow.ended and budget.closed; to states of queues
	// applies its queue.
	Filter *WebhookFilter `json:"filter,omitzero"`
	// Thresholds are for how long a state holds before its event is sent.
	Thresholds *Thresholds `json:"thresholds,omitzero"`
	// Paused holds deliveries back. They are kept for two days.
	Paused bool `json:"paused,omitzero"`
	// Label names what the webhook belongs to, such as a file of `forgequeue apply`; none if absent.
	Label *string `json:"label,omitzero"`
}

// WebhookFilter selects jobs: each member that is set must be the job's.
type WebhookFilter struct {
	Queue *string `json:"queue"`
	Type  *string `json:"type"`
	Tag   *string `json:"tag"`
}

// Webhook is a tenant's subscription to the ends of jobs and workflows.
type Webhook struct {
	Name   string        `json:"name"`
	URL    string        `json:"url"`
	Events []string      `json:"events"`
	Filter WebhookFilter `json:"filter"`
	// Thresholds are those in force.
	Thresholds Thresholds `json:"thresholds"`
	Paused     bool       `json:"paused"`
	// Label names what the webhook belongs to; null for none.
	Label *string `json:"label"`
	// Secret signs the calls (Standard Webhooks, whsec_…). It is shown only in the answer to the PUT that
	// made the webhook, and to a rotation; else null.
	Secret *string `json:"secret"`
	// PreviousSecretUntil is until when calls are signed with the secret of before the last rotation too;
	// null if there is none.
	PreviousSecretUntil *Time `json:"previous_secret_until" swaggertype:"string" format:"date-time"`
	// Queue is the system queue of its deliveries, for lists of jobs and dead letters.
	Queue      string            `json:"queue"`
	Deliveries WebhookDeliveries `json:"deliveries"`
	// Breaker is that of its destination, as the answering core sees it; null before the first call.
	Breaker   *Breaker `json:"breaker"`
	CreatedAt Time     `json:"created_at" swaggertype:"string" format:"date-time"`
	UpdatedAt Time     `json:"updated_at" swaggertype:"string" format:"date-time"`
}

// WebhookDeliveries counts a webhook's deliveries; counts stop at 10,000.
type WebhookDeliveries struct {
	// Waiting are queued, or wait for their next try; Running are being called.
	Waiting int64 `json:"waiting"`
	Running int64 `json:"running"`
	// DeadLetter could not be delivered.
	DeadLetter int64 `json:"dead_letter"`
	// LastAt is when the last call ended, up to some seconds late; null before the first.
	LastAt *Time `json:"last_at" swaggertype:"string" format:"date-time"`
	// LastStatus is the HTTP status of that call; null where there was no answer.
	LastStatus *int `json:"last_status"`
	// LastError says why there was none.
	LastError *string `json:"last_error"`
}

// WebhookEvent is the body of a delivery.
type WebhookEvent struct {
	Type string `json:"type"`
	// Timestamp is when the job or the workflow ended, the budget was closed, or the event of the state was sent.
	Timestamp Time             `json:"timestamp" swaggertype:"string" format:"date-time"`
	Data      WebhookEventData `json:"data"`
}

// WebhookEventData has the job, the workflow, the budget, the state, or for a test the webhook's name.
type WebhookEventData struct {
	Job      *EndedJob     `json:"job,omitzero"`
	Workflow *Workflow     `json:"workflow,omitzero"`
	Budget   *ClosedBudget `json:"budget,omitzero"`
	Alert    *Alert        `json:"alert,omitzero"`
	Webhook  string        `json:"webhook,omitzero"`
}

// ClosedBudget is a budget that a worker has closed with throttle, having been told to come back later.
type ClosedBudget struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// ClosedUntil is as it was then: it may have been closed for longer since.
	ClosedUntil Time `json:"closed_until" swaggertype:"string" format:"date-time"`
}

// EndedJob is JOB as it ended, without its payload.
type EndedJob struct {
	JobSummary
	Result     json.RawMessage `json:"result" swaggertype:"object" sensitive:"result"`
	Checkpoint json.RawMessage `json:"checkpoint" swaggertype:"object" sensitive:"all"`
	LastError  *JobError       `json:"last_error"`
}

// Validate tells which fields cannot be accepted.
func (w *WebhookRequest) Validate() []problem.FieldError { return validate(w, "", time.Time{}) }

func (w *WebhookRequest) rules(r refusals) {
	r.rule("url", urlRule)
	r.rule("events", Rule{MinItems: 1, MaxItems: len(eventWords), Each: &Rule{Words: eventWords}})
	_, wrong := PushURL(w.URL)
	r.check(wrong == "", "url", "%s", wrong)
	r.check(len(w.Events) > 0, "events", "is required: one or more of %s", strings.Join(eventWords, ", "))
	for i, kind := range w.Events {
		if !slices.Contains(eventWords, kind) || slices.Contains(w.Events[:i], kind) {
			r.add("events", "must be one or more of %s, each once", strings.Join(eventWords, ", "))
			break
		}
	}
	r.text("label", w.Label, &objectLabelText)
	if w.Filter != nil {
		w.Filter.rules(r.in("filter."))
	}
	if w.Thresholds != nil {
		w.Thresholds.rules(r.in("thresholds."))
	}
}

func (f *WebhookFilter) rules(r refusals) {
	r.text("queue", f.Queue, &nameText)
	r.text("type", f.Type, &nameText)
	r.text("tag", f.Tag, &nameText)
}
