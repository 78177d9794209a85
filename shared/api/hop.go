package api

import (
	"encoding/json"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// The hop between gateway and core. Every call is a POST of an Envelope: many
// callers' requests in one, each item with its own principal. core answers with
// one result for each item, in order. The body is signed as a whole.

// Paths of core's internal API.
const (
	HopWorkflowGet     = "/internal/v1/workflow-gets"
	HopWorkflowList    = "/internal/v1/workflow-lists"
	HopWorkflowCancel  = "/internal/v1/workflow-cancels"
	HopWorkflowRedrive = "/internal/v1/workflow-redrives"
	HopParents         = "/internal/v1/parents"
	HopSubmit          = "/internal/v1/submits"
	HopRerun           = "/internal/v1/reruns"
	HopJobDelete       = "/internal/v1/job-deletions"
	HopGet             = "/internal/v1/gets"
	HopClaim           = "/internal/v1/claims"
	HopHeartbeat       = "/internal/v1/heartbeats"
	HopOutcome         = "/internal/v1/outcomes"
	HopRegister        = "/internal/v1/registrations"
	HopLeave           = "/internal/v1/departures"
	HopKeyLookup       = "/internal/v1/key-lookups"
	HopTenantCreate    = "/internal/v1/tenant-creations"
	HopTenantList      = "/internal/v1/tenant-lists"
	HopTenantPatch     = "/internal/v1/tenant-patches"
	HopTenantGet       = "/internal/v1/tenant-gets"
	HopTenantDelete    = "/internal/v1/tenant-deletions"
	HopKeyCreate       = "/internal/v1/key-creations"
	HopKeyList         = "/internal/v1/key-lists"
	HopKeyRevoke       = "/internal/v1/key-revocations"
	HopSessionsEnd     = "/internal/v1/session-endings"
	HopPlanGet         = "/internal/v1/plan-gets"
	HopPlanList        = "/internal/v1/plan-lists"
	HopPlanPut         = "/internal/v1/plan-puts"
	HopCaps            = "/internal/v1/caps"
	HopReady           = "/internal/v1/readiness"
	MaxHopItems        = 1000
	MaxHopBody         = 64 << 20
	HopAssertionWindow = 30 // seconds, either way
)

// Principal is who calls, as the gateway proved it from the key.
type Principal struct {
	// Kind is tenant, platform or operator.
	Kind string `json:"kind"`
	// Tenant is the tenant's id; empty for platform and operator.
	Tenant string `json:"tenant,omitzero"`
	// User is set for a user-bound key: it acts for, and sees, this user alone.
	User   string   `json:"user,omitzero"`
	Scopes []string `json:"scopes,omitzero"`
	KeyID  string   `json:"key_id,omitzero"`
}

// Kinds of a principal.
const (
	PrincipalTenant   = "tenant"
	PrincipalPlatform = "platform"
	PrincipalOperator = "operator"
)

// Item is one caller's request.
type Item[T any] struct {
	Principal     Principal `json:"principal"`
	RequestID     string    `json:"request_id,omitzero"`
	CorrelationID string    `json:"correlation_id,omitzero"`
	Traceparent   string    `json:"traceparent,omitzero"`
	// Shared says of a submit that other tenants' travel in the same envelope and wait
	// for its answer: core answers RetryUnbatched where it would have to wait for the tenant.
	Shared  bool `json:"shared,omitzero"`
	Request T    `json:"request"`
}

// Envelope is the body of every internal call.
type Envelope[T any] struct {
	Items []Item[T] `json:"items"`
}

// Result is one item's answer: a value with its status, or a problem.
type Result[T any] struct {
	Status int `json:"status"`
	// Replayed says that an Idempotency-Key's remembered answer was given again.
	Replayed bool `json:"replayed,omitzero"`
	// RetryUnbatched says that nothing was done: the item is to come again in an envelope of its
	// tenant's own. Only an item that was Shared is answered so, with no value.
	RetryUnbatched bool             `json:"retry_unbatched,omitzero"`
	Value          *T               `json:"value,omitzero"`
	Problem        *problem.Problem `json:"problem,omitzero"`
}

// Results answers an Envelope.
type Results[T any] struct {
	Results []Result[T] `json:"results"`
}

// HopSubmitRequest submits one job or a batch. Jobs and IDs run in parallel: the
// gateway makes the ids (UUID v7).
type HopSubmitRequest struct {
	IDs  []string        `json:"ids"`
	Jobs []SubmitRequest `json:"jobs"`
	// Problems, where not empty, runs in parallel too: a job that the gateway has
	// already refused. Core stores the others and keeps the refusal for replays.
	Problems []*problem.Problem `json:"problems,omitzero"`
	// Batch asks for a BatchResponse, otherwise there is exactly one job.
	Batch       bool         `json:"batch,omitzero"`
	Atomic      bool         `json:"atomic,omitzero"`
	Idempotency *Idempotency `json:"idempotency,omitzero"`
	// Workflow makes a workflow of the jobs, or adds them to one. They are a batch, and atomic.
	Workflow *HopWorkflow `json:"workflow,omitzero"`
}

// HopRerunRequest submits a job like an ended one, under an id that the gateway drew.
type HopRerunRequest struct {
	// JobID is the ended one.
	JobID string `json:"job_id"`
	ID    string `json:"id"`
	// Job is what differs.
	Job         RerunRequest `json:"job,omitzero"`
	Idempotency *Idempotency `json:"idempotency,omitzero"`
}

// HopWorkflow is the workflow of a submit. Its lists run in parallel to the jobs.
type HopWorkflow struct {
	ID       string            `json:"id"`
	Name     string            `json:"name,omitzero"`
	Metadata map[string]string `json:"metadata,omitzero"`
	// Add says that the workflow exists.
	Add   bool                   `json:"add,omitzero"`
	Refs  []string               `json:"refs"`
	After [][]WorkflowDependency `json:"after"`
}

// HopWorkflowListRequest asks for a page of workflows.
type HopWorkflowListRequest struct {
	Filter    WorkflowFilter `json:"filter,omitzero"`
	PageSize  int            `json:"page_size"`
	PageToken string         `json:"page_token,omitzero"`
}

// HopWorkflowRequest names one workflow.
type HopWorkflowRequest struct {
	ID string `json:"id"`
}

// HopParentsRequest asks for a page of a job's parents.
type HopParentsRequest struct {
	JobID     string `json:"job_id"`
	PageSize  int    `json:"page_size"`
	PageToken string `json:"page_token,omitzero"`
}

// Idempotency names a request so that its repeat gets the same answer.
type Idempotency struct {
	// Operation is the route, so that one key may serve two kinds of request.
	Operation string `json:"operation"`
	Key       string `json:"key"`
	// Fingerprint is the SHA-256 of the canonical body, in hex.
	Fingerprint string `json:"fingerprint"`
}

// HopSubmitResponse is the public answer, ready to be sent: SubmitResponse for a
// single job, BatchResponse for a batch. It is opaque so that a replay gives
// back the very bytes that were stored.
type HopSubmitResponse = json.RawMessage

// HopGetRequest reads one job.
type HopGetRequest struct {
	JobID string `json:"job_id"`
}

// HopExplainRequest asks why a job waits.
type HopExplainRequest struct {
	JobID string `json:"job_id"`
	// Details asks for the job and its attempts besides.
	Details bool `json:"details,omitzero"`
}

// HopHeartbeatRequest is a heartbeat with its worker.
type HopHeartbeatRequest struct {
	WorkerID string  `json:"worker_id"`
	Leases   []Lease `json:"leases"`
}

// HopLeaveRequest names the worker that leaves.
type HopLeaveRequest struct {
	WorkerID string `json:"worker_id"`
}

// HopKeyLookupRequest asks for one key by its id.
type HopKeyLookupRequest struct {
	KeyID string `json:"key_id"`
}

// HopKey is what the gateway needs to check a key and to act for it. A revoked
// or expired key is not found.
type HopKey struct {
	KeyID string `json:"key_id"`
	Kind  string `json:"kind"`
	// SecretHMAC is HMAC-SHA-256 of the key's secret under the gateway's own
	// secret: core never sees a key, nor could it make one.
	SecretHMAC []byte   `json:"secret_hmac"`
	Tenant     string   `json:"tenant,omitzero"`
	User       string   `json:"user,omitzero"`
	Scopes     []string `json:"scopes"`
	ExpiresAt  *Time    `json:"expires_at,omitzero"`
	// ExpiresInMS is the time left to the key, by core's database: what decides,
	// because clocks differ.
	ExpiresInMS *int64 `json:"expires_in_ms,omitzero"`
	Plan        *Plan  `json:"plan,omitzero"`
	// TenantName is the tenant's name.
	TenantName string `json:"tenant_name,omitzero"`
	// Overrides are the tenant's.
	Overrides *Overrides `json:"overrides,omitzero"`
	// SessionsEnded is how often all console sessions of the key were ended.
	SessionsEnded int64 `json:"sessions_ended,omitzero"`
	// TypesVersion is that of the tenant's types of jobs; 0 for a tenant that never had any.
	TypesVersion int64 `json:"types_version,omitzero"`
	// Cell is the cell of the tenant's jobs, "" for the home cell. Submits share requests within a cell.
	Cell string `json:"cell,omitzero"`
}

// HopKeyCreateRequest stores a key that the gateway drew. Tenant is the operator's to set; a tenant's key makes
// keys of its own tenant.
type HopKeyCreateRequest struct {
	KeyID      string   `json:"key_id"`
	Kind       string   `json:"kind"`
	SecretHMAC []byte   `json:"secret_hmac"`
	Tenant     string   `json:"tenant,omitzero"`
	User       *string  `json:"user,omitzero"`
	Scopes     []string `json:"scopes"`
	ExpiresAt  *Time    `json:"expires_at,omitzero"`
}

// HopSessionsEndRequest ends the console sessions of the principal's own key.
type HopSessionsEndRequest struct{}

// HopTenantCreateRequest makes a tenant under an id that the gateway drew.
type HopTenantCreateRequest struct {
	ID string `json:"id"`
	TenantRequest
}

// HopTenantPatchRequest changes a tenant.
type HopTenantPatchRequest struct {
	ID string `json:"id"`
	TenantPatch
}

// HopTenantRequest names a tenant.
type HopTenantRequest struct {
	ID string `json:"id"`
}

// HopPageRequest asks for one page of a list. Tenant is whose keys the operator lists; a tenant lists its own.
type HopPageRequest struct {
	Tenant    string `json:"tenant,omitzero"`
	PageSize  int    `json:"page_size"`
	PageToken string `json:"page_token,omitzero"`
}

// HopQueuesRequest asks for a page of queues.
type HopQueuesRequest struct {
	HopPageRequest
	// DepthBudget bounds what is counted in all of them together, for each state; 0 for no such bound.
	DepthBudget int64 `json:"depth_budget,omitzero"`
}

// HopPlanPutRequest sets a plan.
type HopPlanPutRequest struct {
	Name string `json:"name"`
	PlanRequest
}

// HopPlanGetRequest reads a plan.
type HopPlanGetRequest struct {
	Name string `json:"name"`
}

// Channels of Redis pub/sub. Every message is a hint: losing it costs a poll.
const (
	// ChannelKeyRevoked carries a key id.
	ChannelKeyRevoked = "fq:hint:key-revoked"
	// ChannelLimitsChanged carries a LimitsChanged: gateways read limits again.
	ChannelLimitsChanged = "fq:hint:limits-changed"
	// ChannelReady, with ":" and the identity of their database, carries the hints of cores to each other.
	ChannelReady = "fq:hint:ready"
)

// LimitsChanged says whose limits are no longer what they were: one tenant's, or
// those of all tenants on a plan.
type LimitsChanged struct {
	Tenant string `json:"tenant,omitzero"`
	Plan   string `json:"plan,omitzero"`
}

// HopCapsRequest asks for the caps of the principal's tenant, and of one user
// where User is not empty, with what is used of them.
type HopCapsRequest struct {
	User string `json:"user,omitzero"`
}

// HopCapsResponse tells them.
type HopCapsResponse struct {
	Caps []CapUse `json:"caps"`
}
