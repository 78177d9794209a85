package api

import (
	"encoding/json"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// WorkerRequest registers a worker, or updates it.
type WorkerRequest struct {
	WorkerID string   `json:"worker_id"`
	Queues   []string `json:"queues,omitzero"`
	// Types are those of the jobs that it takes, at most 100; null is all types.
	Types       []string          `json:"types,omitzero"`
	Tags        []string          `json:"tags,omitzero"`
	Concurrency *int              `json:"concurrency,omitzero"`
	Metadata    map[string]string `json:"metadata,omitzero"`
}

// Worker is WORKER of the contract.
type Worker struct {
	WorkerID string   `json:"worker_id"`
	Status   string   `json:"status"`
	Queues   []string `json:"queues"`
	// Types are those of the jobs that it takes; null is all types.
	Types           *[]string         `json:"types"`
	Tags            []string          `json:"tags"`
	Concurrency     int               `json:"concurrency"`
	Metadata        map[string]string `json:"metadata"`
	Leases          int               `json:"leases"`
	RegisteredAt    Time              `json:"registered_at" swaggertype:"string" format:"date-time"`
	LastHeartbeatAt Time              `json:"last_heartbeat_at" swaggertype:"string" format:"date-time"`
}

// HeartbeatRequest keeps all of a worker's leases at once.
type HeartbeatRequest struct {
	Leases []Lease `json:"leases,omitzero"`
}

// Lease names one held lease.
type Lease struct {
	JobID      string `json:"job_id"`
	LeaseToken string `json:"lease_token"`
	// Progress replaces the job's; absent or null leaves it as it is.
	Progress *Progress `json:"progress,omitzero"`
	// Checkpoint is JSON of at most 64 KiB, which the job's next attempt gets. It replaces the one before; absent or
	// null leaves that as it is.
	Checkpoint json.RawMessage `json:"checkpoint,omitzero" swaggertype:"object"`
}

// For is the lease of a job by the canonical form of its id. A checkpoint of null is none.
func (l Lease) For(jobID string) Lease {
	l.JobID = jobID
	if string(l.Checkpoint) == "null" {
		l.Checkpoint = nil
	}
	return l
}

// Progress is how far an attempt has come, as its worker says.
type Progress struct {
	// Percent is 0 to 100; null if the worker does not know it.
	Percent *float64 `json:"percent"`
	// Message has at most 256 characters.
	Message *string `json:"message" sensitive:"all"`
}

// HeartbeatResponse has the status of each lease, in the order sent.
type HeartbeatResponse struct {
	Status string        `json:"status"`
	Leases []LeaseStatus `json:"leases"`
}

// LeaseStatus is ok, cancel (extended, but the job should stop) or lost.
type LeaseStatus struct {
	JobID          string `json:"job_id"`
	Status         string `json:"status"`
	LeaseExpiresAt *Time  `json:"lease_expires_at" swaggertype:"string" format:"date-time"`
	// LeaseMS is how long the lease lasts from this answer on, in milliseconds: what
	// a worker needs whose clock may differ from the server's. Null for a lost lease.
	LeaseMS *int64 `json:"lease_ms"`
}

// ClaimRequest asks for jobs.
type ClaimRequest struct {
	WorkerID string   `json:"worker_id"`
	Queues   []string `json:"queues"`
	// Types are those of the jobs to take, at most 100; null takes all types.
	Types []string `json:"types,omitzero"`
	// Tags are the worker's; null takes those it registered with.
	Tags *[]string `json:"tags,omitzero"`
	// Max is the maximum number of jobs, 1 if absent. An answer has at most 8 MiB of jobs, but always room for one.
	Max *int `json:"max,omitzero"`
	// WaitMS is how long to wait for the first job, 0 to 25000.
	WaitMS *int64 `json:"wait_ms,omitzero"`
}

// ClaimResponse holds the jobs that are now leased to the caller; often none.
type ClaimResponse struct {
	Jobs []ClaimedJob `json:"jobs"`
}

// ClaimedJob is a leased job with its lease token.
type ClaimedJob struct {
	ID      string          `json:"id"`
	Tenant  string          `json:"tenant"`
	User    *string         `json:"user"`
	Type    string          `json:"type"`
	Queue   string          `json:"queue"`
	Payload json.RawMessage `json:"payload" swaggertype:"object"`
	// Checkpoint is the last one that an earlier attempt has reported; null for none.
	Checkpoint     json.RawMessage `json:"checkpoint" swaggertype:"object"`
	Priority       int             `json:"priority"`
	Attempt        int             `json:"attempt"`
	MaxAttempts    int             `json:"max_attempts"`
	Epoch          int64           `json:"epoch"`
	LeaseToken     string          `json:"lease_token"`
	LeaseExpiresAt Time            `json:"lease_expires_at" swaggertype:"string" format:"date-time"`
	// LeaseMS is how long the lease lasts from this answer on, in milliseconds.
	LeaseMS       int64             `json:"lease_ms"`
	Deadline      *Time             `json:"deadline" swaggertype:"string" format:"date-time"`
	TimeoutMS     *int64            `json:"timeout_ms"`
	Tags          []string          `json:"tags"`
	Metadata      map[string]string `json:"metadata"`
	CorrelationID *string           `json:"correlation_id"`
	Traceparent   *string           `json:"traceparent"`
	CreatedAt     Time              `json:"created_at" swaggertype:"string" format:"date-time"`
	// Workflow is null for a job of no workflow.
	Workflow *JobWorkflow `json:"workflow"`
	// Parents are the jobs that it came after, those that are still kept; GET /v1/jobs/{id}/parents has
	// their results.
	Parents []ClaimedParent `json:"parents"`
	// Signals are those that the job has, by name; empty without. WokenBy is what has ended its last wait: signal or timeout; null where
	// it has not waited.
	Signals []ClaimedSignal `json:"signals"`
	WokenBy *string         `json:"woken_by"`
}

// ClaimedSignal is a signal that a claimed job has.
type ClaimedSignal struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data" swaggertype:"object"`
	At   Time            `json:"at" swaggertype:"string" format:"date-time"`
}

// CompleteRequest ends a job well.
type CompleteRequest struct {
	LeaseToken string          `json:"lease_token"`
	Result     json.RawMessage `json:"result,omitzero" swaggertype:"object"`
	// Used is what the attempt has used of budgets; what it has reserved, if absent.
	Used Amounts `json:"used,omitzero"`
	// Submit are jobs that are stored with the outcome, or not at all: at most 100, as POST /v1/jobs takes them. If one is
	// refused, so is the outcome, and the lease stays.
	Submit []SubmitRequest `json:"submit,omitzero"`
	// Signal are signals of other jobs that are stored with the outcome, or not at all: at most 16.
	Signal []OutcomeSignal `json:"signal,omitzero"`
}

// FailRequest ends an attempt badly.
type FailRequest struct {
	LeaseToken string    `json:"lease_token"`
	Error      *JobError `json:"error,omitzero"`
	// RetryAfterMS replaces the backoff.
	RetryAfterMS *int64 `json:"retry_after_ms,omitzero"`
	// Permanent dead-letters at once.
	Permanent bool `json:"permanent,omitzero"`
	// Used is what the attempt has used of budgets; what it has reserved, if absent, and nothing of one in Throttle.
	Used Amounts `json:"used,omitzero"`
	// Throttle closes budgets for all jobs, such as when their destination answered 429.
	Throttle map[string]Throttle `json:"throttle,omitzero"`
}

// SnoozeRequest puts a job back for a while; the attempt is given back.
// Error, where given, says why, and is shown as the job's last error.
type SnoozeRequest struct {
	LeaseToken string    `json:"lease_token"`
	DelayMS    *int64    `json:"delay_ms"`
	Error      *JobError `json:"error,omitzero"`
	// Used and Throttle are as in a fail.
	Used     Amounts             `json:"used,omitzero"`
	Throttle map[string]Throttle `json:"throttle,omitzero"`
}

// WaitRequest makes the job wait for signals, or for a time: without lease, and the attempt is given back.
type WaitRequest struct {
	LeaseToken string `json:"lease_token"`
	// For are the names of the signals, at most 16. Empty: only the time ends the wait.
	For []string `json:"for,omitzero"`
	// Mode is any (the default) or all.
	Mode string `json:"mode,omitzero"`
	// TimeoutMS is how long it waits at most, in milliseconds.
	TimeoutMS *int64 `json:"timeout_ms"`
	// Checkpoint is what the next attempt gets; the last one that was reported, if absent.
	Checkpoint json.RawMessage `json:"checkpoint,omitzero" swaggertype:"object"`
	// Used is what the attempt has used of budgets; what it has reserved, if absent.
	Used Amounts `json:"used,omitzero"`
	// Submit and Signal are as of CompleteRequest.
	Submit []SubmitRequest `json:"submit,omitzero"`
	Signal []OutcomeSignal `json:"signal,omitzero"`
}

// SignalRequest tells a job something from outside.
type SignalRequest struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data,omitzero" swaggertype:"object"`
}

// OutcomeSignal is a signal that an outcome sends to another job of the tenant.
type OutcomeSignal struct {
	JobID string          `json:"job_id" format:"uuid"`
	Name  string          `json:"name"`
	Data  json.RawMessage `json:"data,omitzero" swaggertype:"object"`
}

// SignalLinkRequest asks for a link by which a person without a key sends one signal.
type SignalLinkRequest struct {
	Name string `json:"name"`
	// Title is what the page of the link asks, such as "Refund order 1234?"; at most 200 characters. The signal's name, if absent.
	Title string `json:"title,omitzero"`
	// ExpiresMS is how long the link is good, in milliseconds; seven days, if absent.
	ExpiresMS *int64 `json:"expires_ms,omitzero"`
}

// SignalLink is a link that sends one signal.
type SignalLink struct {
	URL       string `json:"url"`
	ExpiresAt Time   `json:"expires_at" swaggertype:"string" format:"date-time"`
}

// LinkedSignal is what a link sends.
type LinkedSignal struct {
	JobID     string `json:"job_id" format:"uuid"`
	Name      string `json:"name"`
	Title     string `json:"title"`
	ExpiresAt Time   `json:"expires_at" swaggertype:"string" format:"date-time"`
}

// LinkedSignalRequest is what the opener of a link says.
type LinkedSignalRequest struct {
	Data json.RawMessage `json:"data,omitzero" swaggertype:"object"`
}

// Signal is the answer to a SignalRequest: the first of its name stays.
type Signal struct {
	Name string `json:"name"`
	At   Time   `json:"at" swaggertype:"string" format:"date-time"`
	// First is false where the job had a signal of this name before; then nothing has changed.
	First bool `json:"first"`
}

// ReleaseRequest puts a job back at once; the attempt is given back.
type ReleaseRequest struct {
	LeaseToken string `json:"lease_token"`
	// Used is what the attempt has used of budgets; nothing, if absent.
	Used Amounts `json:"used,omitzero"`
}

// Outcome is what became of the job, as answered to its lease holder.
type Outcome struct {
	JobID      string  `json:"job_id"`
	State      string  `json:"state"`
	Attempt    int     `json:"attempt"`
	Epoch      int64   `json:"epoch"`
	RunAt      *Time   `json:"run_at" swaggertype:"string" format:"date-time"`
	DeadReason *string `json:"dead_reason"`
	// Submitted are the ids of the jobs that were stored with it, in the order of submit; absent without.
	Submitted []string `json:"submitted,omitzero"`
}

// OutcomeRequest is one outcome of any kind, as in POST /v1/outcomes.
type OutcomeRequest struct {
	JobID        string          `json:"job_id"`
	Kind         string          `json:"kind"`
	LeaseToken   string          `json:"lease_token"`
	Result       json.RawMessage `json:"result,omitzero" swaggertype:"object"`
	Error        *JobError       `json:"error,omitzero"`
	RetryAfterMS *int64          `json:"retry_after_ms,omitzero"`
	Permanent    bool            `json:"permanent,omitzero"`
	DelayMS      *int64          `json:"delay_ms,omitzero"`
	// Used is what the attempt has used of budgets. Throttle, of a fail or snooze, closes budgets.
	Used     Amounts             `json:"used,omitzero"`
	Throttle map[string]Throttle `json:"throttle,omitzero"`
	// For, Mode, TimeoutMS and Checkpoint belong to a wait.
	For        []string        `json:"for,omitzero"`
	Mode       string          `json:"mode,omitzero"`
	TimeoutMS  *int64          `json:"timeout_ms,omitzero"`
	Checkpoint json.RawMessage `json:"checkpoint,omitzero" swaggertype:"object"`
	// Submit, of a complete or a wait, are jobs that are stored with it or not at all, at most 100; Signal are signals of other jobs, at
	// most 16.
	Submit []SubmitRequest `json:"submit,omitzero"`
	Signal []OutcomeSignal `json:"signal,omitzero"`
}

// OutcomesRequest carries up to 1000 outcomes.
type OutcomesRequest struct {
	Outcomes []OutcomeRequest `json:"outcomes"`
}

// OutcomesResponse answers each in the order sent.
type OutcomesResponse struct {
	Results []OutcomeResult `json:"results"`
}

// OutcomeResult is one outcome's answer.
type OutcomeResult struct {
	Index   int              `json:"index"`
	Status  int              `json:"status"`
	Outcome *Outcome         `json:"outcome"`
	Problem *problem.Problem `json:"problem"`
}
