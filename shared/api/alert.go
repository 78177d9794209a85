package api

import (
	"slices"
	"time"
)

// Kinds of events that tell of a state: one when it has begun, and one when it is over. Where both have the same kind,
// ended_at says which it is.
const (
	EventQueueStalled   = "queue.stalled"
	EventQueueUnserved  = "queue.unserved"
	EventQueueRecovered = "queue.recovered"
	EventBreakerOpened  = "breaker.opened"
	EventBreakerClosed  = "breaker.closed"
	EventCapFull        = "cap.full"
	EventScheduleMissed = "schedule.missed"
	EventWebhookFailing = "webhook.failing"
)

// AlertStates are the states that have events, by the kind of the event of their begin, in order.
func AlertStates() []string {
	return []string{EventQueueStalled, EventQueueUnserved, EventBreakerOpened, EventCapFull, EventScheduleMissed, EventWebhookFailing}
}

// AlertEnd is the kind of the event that a state is over.
func AlertEnd(state string) string {
	switch state {
	case EventQueueStalled, EventQueueUnserved:
		return EventQueueRecovered
	case EventBreakerOpened:
		return EventBreakerClosed
	default:
		return state
	}
}

// IsAlert says whether events of a kind tell of a state.
func IsAlert(kind string) bool {
	return slices.ContainsFunc(AlertStates(), func(state string) bool { return kind == state || kind == AlertEnd(state) })
}

// What an Alert is of.
const (
	AlertOfQueue    = "queue"
	AlertOfTenant   = "tenant"
	AlertOfSchedule = "schedule"
	AlertOfWebhook  = "webhook"
)

// Alert is a state that needs attention.
type Alert struct {
	// State is the kind of the event of its begin, also in the event of its end.
	State string `json:"state" enums:"queue.stalled,queue.unserved,breaker.opened,cap.full,schedule.missed,webhook.failing"`
	// Of is what has the state, and Name its name; null for the tenant.
	Of   string  `json:"of" enums:"queue,tenant,schedule,webhook"`
	Name *string `json:"name"`
	// Detail says in words what was seen.
	Detail  string `json:"detail"`
	BeganAt Time   `json:"began_at" swaggertype:"string" format:"date-time"`
	// EndedAt is null while the state holds.
	EndedAt *Time `json:"ended_at" swaggertype:"string" format:"date-time"`
}

// Thresholds are for how long, in milliseconds, a state holds before its event is sent; 0 sends it at once. What is absent is the
// default. A missed tick of a schedule is sent at once: it is one that is more than a minute late.
type Thresholds struct {
	// QueueStalledMS is how long the oldest ready job has waited; absent: 5 minutes.
	QueueStalledMS *int64 `json:"queue_stalled_ms,omitzero"`
	// QueueUnservedMS is for how long jobs are ready that no active worker takes; absent: 1 minute.
	QueueUnservedMS *int64 `json:"queue_unserved_ms,omitzero"`
	// BreakerOpenedMS is for how long a breaker is not closed; absent: 0.
	BreakerOpenedMS *int64 `json:"breaker_opened_ms,omitzero"`
	// CapFullMS is for how long a cap on active jobs is full; absent: 1 minute.
	CapFullMS *int64 `json:"cap_full_ms,omitzero"`
	// WebhookFailingMS is for how long the last call of another webhook was not answered with 2xx; absent: 5 minutes.
	WebhookFailingMS *int64 `json:"webhook_failing_ms,omitzero"`
	// EndedMS is for how long a state has to be over before the event of its end is sent; absent: 1 minute. One that comes back before has
	// not ended.
	EndedMS *int64 `json:"ended_ms,omitzero"`
}

// MaxThreshold bounds each of the thresholds. A state has to be over for MinEnded at least: each core looks for states each
// ten seconds, and has breakers of its own.
const (
	MaxThreshold = 24 * time.Hour
	MinEnded     = 30 * time.Second
)

// ThresholdEnded names the threshold of the end of all states.
const ThresholdEnded = "ended"

// Field is the threshold of a state, or that of ThresholdEnded; nil where there is none.
func (t *Thresholds) Field(state string) **int64 {
	switch state {
	case EventQueueStalled:
		return &t.QueueStalledMS
	case EventQueueUnserved:
		return &t.QueueUnservedMS
	case EventBreakerOpened:
		return &t.BreakerOpenedMS
	case EventCapFull:
		return &t.CapFullMS
	case EventWebhookFailing:
		return &t.WebhookFailingMS
	case ThresholdEnded:
		return &t.EndedMS
	default:
		return nil
	}
}

// InForce are the thresholds with the defaults filled in.
func (t *Thresholds) InForce() Thresholds {
	made := Thresholds{}
	if t != nil {
		made = *t
	}
	for state, standard := range map[string]time.Duration{
		EventQueueStalled: 5 * time.Minute, EventQueueUnserved: time.Minute, EventBreakerOpened: 0, EventCapFull: time.Minute,
		EventWebhookFailing: 5 * time.Minute, ThresholdEnded: time.Minute,
	} {
		if field := made.Field(state); *field == nil {
			*field = new(standard.Milliseconds())
		}
	}
	return made
}

// Of is the threshold of a state, or that of ThresholdEnded; they must be in force.
func (t *Thresholds) Of(state string) time.Duration {
	field := t.Field(state)
	if field == nil {
		return 0
	}
	return time.Duration(**field) * time.Millisecond
}

func (t *Thresholds) rules(r refusals) {
	r.millis("queue_stalled_ms", t.QueueStalledMS, 0, MaxThreshold)
	r.millis("queue_unserved_ms", t.QueueUnservedMS, 0, MaxThreshold)
	r.millis("breaker_opened_ms", t.BreakerOpenedMS, 0, MaxThreshold)
	r.millis("cap_full_ms", t.CapFullMS, 0, MaxThreshold)
	r.millis("webhook_failing_ms", t.WebhookFailingMS, 0, MaxThreshold)
	r.millis("ended_ms", t.EndedMS, MinEnded, MaxThreshold)
}
