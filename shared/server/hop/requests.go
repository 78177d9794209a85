package hop

import (
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// ID names what an operation is about: a job, a workflow, a redrive, a worker, a key or a tenant.
type ID struct {
	ID string `json:"id"`
}

// Name names what an operation is about: a queue, a schedule, a webhook, a type or a plan.
type Name struct {
	Name string `json:"name"`
}

// PageRequest asks for one page of a list.
type PageRequest struct {
	PageSize  int    `json:"page_size"`
	PageToken string `json:"page_token,omitzero"`
}

// PageFor asks for one page of what belongs to one thing: a job's attempts or parents, a schedule's runs, a type's
// versions, a tenant's keys.
type PageFor struct {
	// For is the thing's id or name. It is empty for a tenant's own keys.
	For string `json:"for,omitzero"`
	PageRequest
}

// Filtered asks for one page of what a filter chooses.
type Filtered[F any] struct {
	Filter F `json:"filter"`
	PageRequest
}

// Put sets what Name names.
type Put[T any] struct {
	Name  string `json:"name"`
	Value T      `json:"value"`
}

// WithID creates or changes what ID names. The gateway draws the ids of what is created.
type WithID[T any] struct {
	ID    string `json:"id"`
	Value T      `json:"value"`
}

// Pause pauses or resumes a queue or a schedule.
type Pause struct {
	Name   string `json:"name"`
	Paused bool   `json:"paused"`
}

// OnceRequest asks for something of what Name names that is done once for an Idempotency-Key: a new secret of a webhook, or a
// test delivery or a schedule's job under an id that the gateway drew.
type OnceRequest struct {
	Name        string       `json:"name"`
	ID          string       `json:"id,omitzero"`
	Idempotency *Idempotency `json:"idempotency,omitzero"`
}

// SubmitJobsRequest submits one job or a batch. Jobs and IDs run in parallel: the
// gateway makes the ids (UUID v7).
type SubmitJobsRequest struct {
	IDs  []string            `json:"ids"`
	Jobs []api.SubmitRequest `json:"jobs"`
	// Problems, where not empty, runs in parallel too: a job that the gateway has
	// already refused. Core stores the others and keeps the refusal for replays.
	Problems []*problem.Problem `json:"problems,omitzero"`
	// Batch asks for a BatchResponse, otherwise there is exactly one job.
	Batch       bool         `json:"batch,omitzero"`
	Atomic      bool         `json:"atomic,omitzero"`
	Idempotency *Idempotency `json:"idempotency,omitzero"`
	// Workflow makes a workflow of the jobs, or adds them to one. They are a batch, and atomic.
	Workflow *SubmittedWorkflow `json:"workflow,omitzero"`
}

// SubmittedWorkflow is the workflow of a submit. Its lists run in parallel to the jobs.
type SubmittedWorkflow struct {
	ID       string            `json:"id"`
	Name     string            `json:"name,omitzero"`
	Metadata map[string]string `json:"metadata,omitzero"`
	// Add says that the workflow exists.
	Add   bool                       `json:"add,omitzero"`
	Refs  []string                   `json:"refs"`
	After [][]api.WorkflowDependency `json:"after"`
}

// RerunJobRequest submits a job like an ended one, under an id that the gateway drew.
type RerunJobRequest struct {
	// JobID is the ended one.
	JobID string `json:"job_id"`
	ID    string `json:"id"`
	// Job is what differs.
	Job         api.RerunRequest `json:"job,omitzero"`
	Idempotency *Idempotency     `json:"idempotency,omitzero"`
}

// PatchJobRequest changes a job that waits.
type PatchJobRequest struct {
	ID    string       `json:"id"`
	Patch api.JobPatch `json:"patch"`
	// IfMatch are the ETags that the job may have; empty for any.
	IfMatch []string `json:"if_match,omitzero"`
}

// WaitForJobRequest waits until a job changes.
type WaitForJobRequest struct {
	ID     string `json:"id"`
	WaitMS int64  `json:"wait_ms"`
	// Ended waits for a terminal state; otherwise for any other than Seen, or than
	// the one found first where Seen is empty.
	Ended bool   `json:"ended,omitzero"`
	Seen  string `json:"seen,omitzero"`
	// Version waits for a job with another Job.Version; Ended and Seen are not used then.
	Version string `json:"version,omitzero"`
}

// ExplainJobRequest asks why a job waits.
type ExplainJobRequest struct {
	ID string `json:"id"`
	// Details asks for the job and its attempts besides.
	Details bool `json:"details,omitzero"`
}

// WorkerHeartbeat is a heartbeat with its worker.
type WorkerHeartbeat struct {
	WorkerID string      `json:"worker_id"`
	Leases   []api.Lease `json:"leases"`
}

// ListQueuesRequest asks for a page of queues.
type ListQueuesRequest struct {
	PageRequest
	// DepthBudget bounds what is counted in all of them together, for each state; 0 for no such bound.
	DepthBudget int64 `json:"depth_budget,omitzero"`
}

// ListQueueKeysRequest asks for one page of the keys of a queue.
type ListQueueKeysRequest struct {
	PageRequest
	Name string `json:"name"`
	// MinWaiting leaves out keys with fewer jobs that wait for others of the key.
	MinWaiting int64 `json:"min_waiting,omitzero"`
}

// ScaleQueueRequest asks how many slots a queue needs.
type ScaleQueueRequest struct {
	Name string `json:"name"`
	// TargetWaitMS is how long jobs may wait, 0 for the default; ColdStartMS how long a worker takes to start.
	TargetWaitMS int64 `json:"target_wait_ms,omitzero"`
	ColdStartMS  int64 `json:"cold_start_ms,omitzero"`
}

// GetBudgetRequest asks for a budget.
type GetBudgetRequest struct {
	Name string `json:"name"`
	// Subject is the user or key whose amount is shown, of a budget that is by one; null for none.
	Subject *string `json:"subject,omitzero"`
}

// BudgetUsageRequest asks for the usage of a budget on some days; absent ones are as in a UsageRequest.
type BudgetUsageRequest struct {
	Name string `json:"name"`
	From string `json:"from,omitempty" format:"date"`
	To   string `json:"to,omitempty" format:"date"`
}

// StatsRequest asks for stats; what is null or empty is its default.
type StatsRequest struct {
	Queue string    `json:"queue,omitempty"`
	From  *api.Time `json:"from" swaggertype:"string" format:"date-time"`
	To    *api.Time `json:"to" swaggertype:"string" format:"date-time"`
	Step  string    `json:"step,omitempty"`
}

// UsageRequest asks for usage; empty dates are the current month.
type UsageRequest struct {
	From string `json:"from,omitempty" format:"date"`
	To   string `json:"to,omitempty" format:"date"`
	By   string `json:"by,omitempty"`
	PageRequest
}

// LimitUsesRequest is what a gateway has admitted and refused of a tenant's requests since its last report.
type LimitUsesRequest struct {
	Uses []LimitUse `json:"uses"`
}

// LimitUse is what was used of one limit.
type LimitUse struct {
	// Limit is the limit's name in refusals, as in tenant-requests.
	Limit string `json:"limit"`
	// Name is the user or the key that was refused; empty for the tenant, and for all of its users or keys together.
	Name string `json:"name,omitzero"`
	// Used is how much was admitted; of a cap, its use.
	Used int64 `json:"used,omitzero"`
	// Allowed is what the rate is in a minute, 0 where each user or key has its own; of a cap, the cap.
	Allowed int64 `json:"allowed,omitzero"`
	// Refused counts jobs, or requests.
	Refused int64 `json:"refused,omitzero"`
}

// PutTypeRequest sets a type.
type PutTypeRequest struct {
	Name  string             `json:"name"`
	Value api.JobTypeRequest `json:"value"`
	// Force stores a payload schema that waiting jobs do not fit.
	Force bool `json:"force,omitzero"`
}

// TypeVersionRequest names a version of a type; 0 is the newest.
type TypeVersionRequest struct {
	Name    string `json:"name"`
	Version int    `json:"version,omitzero"`
}

// CreateKeyRequest stores a key that the gateway drew. Tenant is the operator's to set; a tenant's key makes
// keys of its own tenant.
type CreateKeyRequest struct {
	KeyID      string    `json:"key_id"`
	Kind       string    `json:"kind"`
	SecretHMAC []byte    `json:"secret_hmac"`
	Tenant     string    `json:"tenant,omitzero"`
	User       *string   `json:"user,omitzero"`
	Scopes     []string  `json:"scopes"`
	ExpiresAt  *api.Time `json:"expires_at,omitzero"`
}

// CapsRequest asks for the caps of the principal's tenant, and of one user
// where User is not empty, with what is used of them.
type CapsRequest struct {
	User string `json:"user,omitzero"`
}

// SignalsRequest asks for the signals that a job was sent.
type SignalsRequest struct {
	ID string `json:"id"`
}

// SignalJobRequest tells a job something from outside.
type SignalJobRequest struct {
	ID     string            `json:"id"`
	Signal api.SignalRequest `json:"signal"`
}

// AppendOutputRequest is what the holder of a job's lease says.
type AppendOutputRequest struct {
	ID     string            `json:"id"`
	Output api.OutputRequest `json:"output"`
}

// ReadOutputRequest asks for what a job has said after a chunk.
type ReadOutputRequest struct {
	ID    string `json:"id"`
	Epoch int64  `json:"epoch,omitzero"`
	Seq   int64  `json:"seq,omitzero"`
}
