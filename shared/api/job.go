package api

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// SubmitRequest is one job as its producer describes it. The zero value of a
// pointer, slice or map means "not said": the queue's setting or the default
// stands in.
type SubmitRequest struct {
	// Type is the kind of work; a worker selects its handler by it.
	Type string `json:"type"`
	// Queue is the queue; "default" if empty.
	Queue string `json:"queue,omitzero"`
	// Payload is any JSON of up to 256 KiB; it comes back as it was sent, but for
	// white space between its tokens.
	Payload json.RawMessage `json:"payload,omitzero" swaggertype:"object"`
	// Priority is 0 to 9, higher first; 5 if absent.
	Priority *int `json:"priority,omitzero"`
	// RunAt is when it may start at the earliest, at most ten years ahead; a past time is
	// now. Not with DelayMS.
	RunAt *Time `json:"run_at,omitzero" swaggertype:"string" format:"date-time"`
	// DelayMS is the same as a duration from now, in milliseconds.
	DelayMS *int64 `json:"delay_ms,omitzero"`
	// Deadline is when the job is of no use any more, at most ten years ahead; it is then
	// dead-lettered.
	Deadline *Time `json:"deadline,omitzero" swaggertype:"string" format:"date-time"`
	// ExpiresAfterMS makes the deadline: so long after the job is stored, in milliseconds, at least 1000. Not with
	// Deadline.
	ExpiresAfterMS *int64 `json:"expires_after_ms,omitzero"`
	// MaxWaitMS refuses the job (would_wait) if its turn is likely to come later than so many milliseconds from now. A job
	// for which that is not known, or that waits for its time or for others first, is accepted.
	MaxWaitMS *int64 `json:"max_wait_ms,omitzero"`
	// MaxAttempts is the maximum number of attempts, 1 to 1000.
	MaxAttempts *int `json:"max_attempts,omitzero"`
	// TimeoutMS bounds one execution, in milliseconds.
	TimeoutMS *int64 `json:"timeout_ms,omitzero"`
	// Retry says how long to wait after a failure.
	Retry *RetryRequest `json:"retry,omitzero"`
	// Tags are the tags that a worker must have to claim this job.
	Tags []string `json:"tags,omitzero"`
	// User is the tenant's own end user on whose behalf the job runs.
	User *string `json:"user,omitzero"`
	// Metadata is returned with the job; lists can be filtered by it.
	Metadata map[string]string `json:"metadata,omitzero"`
	// DedupeKey is unique among live jobs: a second submit with the same key returns the live job.
	DedupeKey *string `json:"dedupe_key,omitzero"`
	// Dedupe is the same, and says what becomes of a second submit. Not with DedupeKey.
	Dedupe *Dedupe `json:"dedupe,omitzero"`
	// Key is whose turn the job takes within its queue, such as a customer, account or document of the tenant: 1 to 128
	// printable ASCII characters. Jobs of different keys take turns, and the queue may limit the jobs of a key. The user, if
	// absent.
	Key *string `json:"key,omitzero"`
	// KeyWeight is the share of the key in the turns, 0.1 to 100; 1 if absent.
	KeyWeight *float64 `json:"key_weight,omitzero"`
	// Costs are what an attempt may use of budgets, by the name of the budget, at most 8: it starts when each of them has so
	// much available. The type's or else the queue's, if absent.
	Costs Amounts `json:"costs,omitzero"`
	// After are the jobs that must have ended before it can start, at most 100; it is blocked until
	// then.
	After []Dependency `json:"after,omitzero"`
}

// RerunRequest says in what the new job differs from the ended one. What is absent, or null, is as it was there;
// a list or an object that is given takes the place of the old one, and retry is changed by member. DedupeKey and
// After are not taken over, nor is a RunAt or Deadline that has passed.
type RerunRequest struct{ SubmitRequest }

// MarshalJSON leaves an empty type out: it is the ended job's.
func (r RerunRequest) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Type string `json:"type,omitzero"`
		SubmitRequest
	}{r.Type, r.SubmitRequest})
}

// Validate tells which fields cannot be accepted; an empty Type is the ended job's.
func (r RerunRequest) Validate(now time.Time) []problem.FieldError {
	complete := r.SubmitRequest
	complete.Type = cmp.Or(complete.Type, "x")
	return complete.Validate("", now)
}

// RetryRequest is a partial Retry.
type RetryRequest struct {
	BaseMS *int64   `json:"base_ms,omitzero"`
	CapMS  *int64   `json:"cap_ms,omitzero"`
	Jitter *float64 `json:"jitter,omitzero"`
	Curve  *string  `json:"curve,omitzero"`
}

// Retry is the wait after failure n, by its curve: exponential is base·2^(n−1),
// linear base·n, constant base; at most cap, give or take jitter (a fraction of
// it), never below a second.
type Retry struct {
	BaseMS int64   `json:"base_ms"`
	CapMS  int64   `json:"cap_ms"`
	Jitter float64 `json:"jitter"`
	Curve  string  `json:"curve"`
}

// JobSummary is JOB- of the contract: a job without payload, result and stack.
type JobSummary struct {
	ID          string            `json:"id"`
	Type        string            `json:"type" sensitive:"type"`
	Queue       string            `json:"queue"`
	User        *string           `json:"user"`
	State       string            `json:"state"`
	Priority    int               `json:"priority"`
	Tags        []string          `json:"tags"`
	Metadata    map[string]string `json:"metadata"`
	Attempt     int               `json:"attempt"`
	MaxAttempts int               `json:"max_attempts"`
	Epoch       int64             `json:"epoch"`
	Redrives    int               `json:"redrives"`
	RunAt       *Time             `json:"run_at" swaggertype:"string" format:"date-time"`
	Deadline    *Time             `json:"deadline" swaggertype:"string" format:"date-time"`
	TimeoutMS   *int64            `json:"timeout_ms"`
	Retry       Retry             `json:"retry"`
	DedupeKey   *string           `json:"dedupe_key"`
	Key         *string           `json:"key"`
	KeyWeight   *float64          `json:"key_weight"`
	// Costs are what an attempt may use of budgets; null for none.
	Costs           Amounts     `json:"costs"`
	CancelRequested bool        `json:"cancel_requested"`
	WorkerID        *string     `json:"worker_id"`
	LeaseExpiresAt  *Time       `json:"lease_expires_at" swaggertype:"string" format:"date-time"`
	LastError       *ErrorBrief `json:"last_error"`
	DeadReason      *string     `json:"dead_reason"`
	CorrelationID   *string     `json:"correlation_id"`
	Traceparent     *string     `json:"traceparent"`
	CreatedAt       Time        `json:"created_at" swaggertype:"string" format:"date-time"`
	StartedAt       *Time       `json:"started_at" swaggertype:"string" format:"date-time"`
	FinishedAt      *Time       `json:"finished_at" swaggertype:"string" format:"date-time"`
	// Workflow is null for a job of no workflow.
	Workflow *JobWorkflow `json:"workflow"`
	// After are the jobs that it comes after, those that are still kept.
	After []JobDependency `json:"after"`
	// BlockedBy is how many of them a blocked job waits for.
	BlockedBy *int `json:"blocked_by"`
	// WaitingFor are the signals that a waiting job waits for, WaitUntil is when it stops to; empty and null otherwise.
	WaitingFor []string `json:"waiting_for"`
	WaitUntil  *Time    `json:"wait_until" swaggertype:"string" format:"date-time"`
	// Output is the place of the last chunk of its output, EPOCH.SEQ; null where it has said nothing.
	Output *string `json:"output"`
	// RerunOf is the ended job that this one was made of by a rerun; it may no longer be kept. Null for
	// another job.
	RerunOf *string `json:"rerun_of"`
	// Progress is what the worker of the last attempt has reported; null for nothing. Each attempt begins without.
	Progress *Progress `json:"progress"`
}

// JobVersion changes with a job's state, epoch, requested cancel, progress and output: it is what a watcher of changes
// compares. Between gateway and core it is opaque.
func JobVersion(state string, epoch int64, cancelRequested bool, progress *Progress, output *string) string {
	version := state + " " + strconv.FormatInt(epoch, 10)
	if state != StateRunning {
		return version
	}
	if cancelRequested {
		version += " cancel"
	}
	if text, err := json.Marshal(progress); err == nil && progress != nil {
		version += " " + string(text)
	}
	if output != nil {
		version += " " + *output
	}
	return version
}

// Version is the job's JobVersion.
func (j *JobSummary) Version() string {
	return JobVersion(j.State, j.Epoch, j.CancelRequested, j.Progress, j.Output)
}

// EventsToken opens the event stream of one job, without a key.
type EventsToken struct {
	Token string `json:"token"`
	// ExpiresAt is until when it opens a stream.
	ExpiresAt Time `json:"expires_at" swaggertype:"string" format:"date-time"`
}

// Job is JOB of the contract: all of it.
type Job struct {
	JobSummary
	Payload json.RawMessage `json:"payload" swaggertype:"object" sensitive:"payload"`
	Result  json.RawMessage `json:"result" swaggertype:"object" sensitive:"result"`
	// Checkpoint is the last one that a worker has reported, which the next attempt gets; null for none.
	Checkpoint json.RawMessage `json:"checkpoint" swaggertype:"object" sensitive:"all"`
	// LastError takes the place of the summary's, and has the stack.
	LastError *JobError `json:"last_error"`
}

// ErrorBrief is an attempt's error without its stack.
type ErrorBrief struct {
	Type    string `json:"type"`
	Message string `json:"message" sensitive:"all"`
}

// JobError is what a worker says of a failed attempt. The message is cut to
// 4 KiB on a rune, the stack to 16 KiB.
type JobError struct {
	Type    string `json:"type"`
	Message string `json:"message" sensitive:"all"`
	Stack   string `json:"stack" sensitive:"all"`
}

// Brief drops the stack.
func (e *JobError) Brief() *ErrorBrief {
	if e == nil {
		return nil
	}
	return &ErrorBrief{Type: e.Type, Message: e.Message}
}

// SubmitResponse is the answer to POST /v1/jobs: the job, and what to know of it.
type SubmitResponse struct {
	JobSummary
	// Warnings are sentences such as "the queue is paused".
	Warnings     []string `json:"warnings"`
	Deduplicated bool     `json:"deduplicated"`
	// Replaced: the job is a live one with the same dedupe key, which now has what this request says.
	Replaced bool `json:"replaced"`
}

// BatchRequest submits up to 1000 jobs at once.
type BatchRequest struct {
	Jobs []SubmitRequest `json:"jobs"`
	// Atomic stores all of them or none.
	Atomic bool `json:"atomic,omitzero"`
}

// BatchResponse answers a batch, item by item in the order sent.
type BatchResponse struct {
	Results  []BatchResult `json:"results"`
	Accepted int           `json:"accepted"`
	Rejected int           `json:"rejected"`
}

// BatchResult is one item's answer: a job or a problem.
type BatchResult struct {
	Index   int              `json:"index"`
	Status  int              `json:"status"`
	Job     *BatchJob        `json:"job"`
	Problem *problem.Problem `json:"problem"`
}

// BatchJob is what a batch says of an accepted job.
type BatchJob struct {
	ID    string `json:"id"`
	State string `json:"state"`
	RunAt *Time  `json:"run_at" swaggertype:"string" format:"date-time"`
	// Replaced: it is a live one with the same dedupe key, which now has what this request says; absent otherwise.
	Replaced bool `json:"replaced,omitzero"`
}

// Attempt is one execution in a job's timeline.
type Attempt struct {
	Attempt int   `json:"attempt"`
	Epoch   int64 `json:"epoch"`
	// Kind is running, completed, failed, lease_expired, timeout or cancelled.
	Kind      string    `json:"kind"`
	WorkerID  *string   `json:"worker_id"`
	StartedAt *Time     `json:"started_at" swaggertype:"string" format:"date-time"`
	EndedAt   *Time     `json:"ended_at" swaggertype:"string" format:"date-time"`
	Error     *JobError `json:"error"`
	NextRunAt *Time     `json:"next_run_at" swaggertype:"string" format:"date-time"`
}
