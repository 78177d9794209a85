package api

import (
	"maps"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// Queue is QUEUE of the contract.
type Queue struct {
	Name   string `json:"name"`
	Mode   string `json:"mode"`
	Paused bool   `json:"paused"`
	// WindowUntil is until when one of its windows lasts; null outside them.
	WindowUntil *Time `json:"window_until" swaggertype:"string" format:"date-time"`
	Depth       Depth `json:"depth"`
	// DepthCapped names the depths that stopped counting: at MaxDepthCount, or in a list with depth_budget earlier.
	DepthCapped []string `json:"depth_capped"`
	// OldestQueuedMS is how long the job that could run first has waited; null if nothing is queued. A job that was
	// given back with its attempt has waited since before.
	OldestQueuedMS *int64 `json:"oldest_queued_ms"`
	ActiveWorkers  int    `json:"active_workers"`
	// StaleWorkers hold jobs of the queue and have sent no heartbeat for a while: they are STALE or DEAD.
	StaleWorkers int `json:"stale_workers"`
	// Unserved has at most MaxUnserved entries.
	Unserved []Unserved `json:"unserved"`
	// DrainPerSecond is how many of its jobs start in a second, on average over a short time; null if that is not known.
	DrainPerSecond *float64 `json:"drain_per_second"`
	// WaitMS is how long a job of the default priority that is submitted now is likely to wait; null if that is not known.
	WaitMS *int64 `json:"wait_ms"`
	// Breaker is of where a queue in push mode sends its jobs; null for the others.
	Breaker  *Breaker      `json:"breaker"`
	Settings QueueSettings `json:"settings"`
}

// Depth is how many jobs of a queue are in each state that is no end, and dead.
type Depth struct {
	Blocked    int64 `json:"blocked"`
	Scheduled  int64 `json:"scheduled"`
	Waiting    int64 `json:"waiting"`
	Queued     int64 `json:"queued"`
	Running    int64 `json:"running"`
	DeadLetter int64 `json:"dead_letter"`
}

// Unserved is a type of jobs, with the tags that they require, that wait and that no active worker
// can take.
type Unserved struct {
	Type string   `json:"type"`
	Tags []string `json:"tags"`
}

// QueueSettings are a queue's settings in force.
type QueueSettings struct {
	VisibilityTimeoutMS int64 `json:"visibility_timeout_ms"`
	MaxAttempts         int   `json:"max_attempts"`
	Retry               Retry `json:"retry"`
	// MaxActive is the most jobs of the queue that have not ended, MaxRunning the
	// most that run at once; null is no cap.
	MaxActive  *int64 `json:"max_active"`
	MaxRunning *int64 `json:"max_running"`
	// RatePerSecond is how many of its jobs start in a second at most; null is no rate.
	RatePerSecond *float64 `json:"rate_per_second"`
	// Types are limits on the jobs of a type, by type, besides those of the queue.
	Types TypeLimits `json:"types"`
	// Keys are how jobs with a key start.
	Keys KeySettings `json:"keys"`
	// Costs are what an attempt of a job that does not say it may use of budgets; null for nothing.
	Costs Amounts `json:"costs"`
	// Windows are when no job of the queue starts.
	Windows []Window `json:"windows"`
	// Push is where a queue in push mode sends its jobs; null for the others.
	Push *Push `json:"push"`
	// Label names what the queue belongs to; null for none.
	Label *string `json:"label"`
}

// Request is the request that sets these settings. It has no secrets: those of the queue stay.
func (s *QueueSettings) Request() QueueRequest {
	mode := ModePull
	if s.Push != nil {
		mode = ModePush
	}
	return QueueRequest{
		Mode: &mode, Push: s.Push.request(),
		VisibilityTimeoutMS: &s.VisibilityTimeoutMS, MaxAttempts: &s.MaxAttempts,
		Retry:     &RetryRequest{BaseMS: &s.Retry.BaseMS, CapMS: &s.Retry.CapMS, Jitter: &s.Retry.Jitter, Curve: &s.Retry.Curve},
		MaxActive: s.MaxActive, MaxRunning: s.MaxRunning, RatePerSecond: s.RatePerSecond, Types: s.Types, Keys: s.Keys.Request(), Costs: s.Costs, Windows: s.Windows,
		Label: s.Label,
	}
}

// QueueRequest sets a queue's settings; what is absent is the default.
type QueueRequest struct {
	// Mode is pull, where workers claim, or push, where jobs are sent to push.url; pull if
	// absent.
	Mode *string `json:"mode,omitzero"`
	// Push says where to; it is needed in push mode, and stands in no other.
	Push                *PushRequest  `json:"push,omitzero"`
	VisibilityTimeoutMS *int64        `json:"visibility_timeout_ms,omitzero"`
	MaxAttempts         *int          `json:"max_attempts,omitzero"`
	Retry               *RetryRequest `json:"retry,omitzero"`
	MaxActive           *int64        `json:"max_active,omitzero"`
	MaxRunning          *int64        `json:"max_running,omitzero"`
	// RatePerSecond is how many jobs of the queue start in a second at most; null is
	// no rate.
	RatePerSecond *float64 `json:"rate_per_second,omitzero"`
	// Types are limits on the jobs of a type, by type, besides those of the queue; at most 100.
	Types TypeLimits `json:"types,omitzero"`
	// Keys are how jobs with a key start.
	Keys *KeySettingsRequest `json:"keys,omitzero"`
	// Costs are what an attempt of a job that does not say it may use of budgets, by the name of the budget.
	Costs Amounts `json:"costs,omitzero"`
	// Windows are when no job of the queue starts, at most 8; jobs are accepted, and running ones go on.
	Windows []Window `json:"windows,omitzero"`
	// Label names what the queue belongs to, such as a file of `forgequeue apply`; none if absent.
	Label *string `json:"label,omitzero"`
}

// TypeLimits are limits by type of jobs.
type TypeLimits map[string]TypeLimit

// Known are the limits, empty and not null where there are none.
func (t TypeLimits) Known() TypeLimits {
	if t == nil {
		return TypeLimits{}
	}
	return t
}

// TypeLimit limits the jobs of one type in a queue.
type TypeLimit struct {
	// MaxRunning is the most that run at once; null is no cap.
	MaxRunning *int64 `json:"max_running"`
	// RatePerSecond is how many start in a second at most; null is no rate.
	RatePerSecond *float64 `json:"rate_per_second"`
}

// DeadLetter is a dead job with why and when.
type DeadLetter struct {
	Job         JobSummary `json:"job"`
	Reason      string     `json:"reason"`
	Error       *JobError  `json:"error"`
	Fingerprint string     `json:"fingerprint"`
	Attempts    int        `json:"attempts"`
	DiedAt      Time       `json:"died_at" swaggertype:"string" format:"date-time"`
	ExpiresAt   *Time      `json:"expires_at" swaggertype:"string" format:"date-time"`
}

// Words of a queue.
const (
	ModePull = "pull"
	ModePush = "push"
	// MaxUnserved bounds Queue.Unserved.
	MaxUnserved = 100
	// MaxDepthCount is where depths stop counting.
	MaxDepthCount = 10_000
	// MaxDepthBudget bounds how many jobs of a state a list of queues may be asked to count in all of them together.
	MaxDepthBudget = 1_000_000
	// MaxPageSize and DefaultPageSize bound lists; MaxPageRows is how many rows one
	// page reads at most.
	MaxPageSize     = 200
	DefaultPageSize = 50
	MaxPageRows     = 10_000
)

// JobFilter narrows a list of jobs; what is absent matches all.
type JobFilter struct {
	Queue         string            `json:"queue,omitzero"`
	Type          string            `json:"type,omitzero"`
	States        []string          `json:"states,omitzero"`
	Tag           string            `json:"tag,omitzero"`
	User          string            `json:"user,omitzero"`
	DedupeKey     string            `json:"dedupe_key,omitzero"`
	Key           string            `json:"key,omitzero"`
	Metadata      map[string]string `json:"metadata,omitzero"`
	CreatedAfter  *Time             `json:"created_after,omitzero"`
	CreatedBefore *Time             `json:"created_before,omitzero"`
}

// DeadLetterFilter narrows a list of dead letters; after and before are about
// when they died.
type DeadLetterFilter struct {
	Queue       string `json:"queue,omitzero"`
	Type        string `json:"type,omitzero"`
	Reason      string `json:"reason,omitzero"`
	Fingerprint string `json:"fingerprint,omitzero"`
	After       *Time  `json:"after,omitzero"`
	Before      *Time  `json:"before,omitzero"`
}

// Validate tells which fields cannot be accepted.
func (q *QueueRequest) Validate() []problem.FieldError { return validate(q, "", time.Time{}) }

func (q *QueueRequest) rules(r refusals) {
	pushes := q.Mode != nil && *q.Mode == ModePush
	r.words("mode", q.Mode, modeWords)
	if q.Push != nil {
		r.check(pushes, "push", "can only be used with mode %q", ModePush)
		q.Push.rules(r.in("push."))
	} else {
		r.check(!pushes, "push", "is required for a queue in push mode, with its url")
	}
	r.millis("visibility_timeout_ms", q.VisibilityTimeoutMS, time.Second, MaxVisibilityTimeout)
	whole(r, "max_attempts", q.MaxAttempts, 1, MaxAttempts)
	if q.Retry != nil {
		q.Retry.rules(r.in("retry."))
	}
	whole(r, "max_active", q.MaxActive, 0, maxCount)
	whole(r, "max_running", q.MaxRunning, 0, maxCount)
	r.above("rate_per_second", q.RatePerSecond, maxRate, "")
	if q.Keys != nil {
		q.Keys.rules(r.in("keys."))
	}
	r.amounts("costs", q.Costs)
	r.windows(q.Windows)
	r.text("label", q.Label, &objectLabelText)
	r.items("types", len(q.Types), 0, MaxTypesPerCall, "")
	for _, jobType := range slices.Sorted(maps.Keys(q.Types)) {
		limits, field := q.Types[jobType], "types."+jobType
		r.check(ValidName(jobType), field, "is not a valid type: %s", NameRule)
		limits.rules(r.in(field + "."))
	}
}

func (t *TypeLimit) rules(r refusals) {
	whole(r, "max_running", t.MaxRunning, 0, maxCount)
	r.above("rate_per_second", t.RatePerSecond, maxRate, "")
}
