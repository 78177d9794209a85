package api

import "time"

// Sizes and counts that a request must keep to. Bytes where nothing else is said.
const (
	MaxBody      = 1 << 20
	MaxBatchBody = 8 << 20
	MaxPayload   = 256 << 10
	// MaxCheckpoint is in bytes of JSON, MaxProgressMessage in characters.
	MaxCheckpoint      = 64 << 10
	MaxProgressMessage = 256
	MaxResult          = 256 << 10
	MaxDepth           = 32
	MaxHeaders         = 16 << 10

	MaxBatchJobs = 1000
	MaxClaim     = 1000
	// MaxClaimBytes bounds a claim's answer, but for one job, which it always may have.
	MaxClaimBytes = 8 << 20
	// MaxPageBytes is the total of items at which a page of a list ends.
	MaxPageBytes     = 1 << 20
	MaxLeases        = 1000
	MaxOutcomes      = 1000
	MaxQueuesPerCall = 100
	// MaxTypesPerCall bounds the types of one claim, or of a worker.
	MaxTypesPerCall = 100

	MaxTags          = 16
	MaxMetadata      = 32
	MaxMetadataValue = 1024
	MaxErrorMessage  = 4 << 10
	MaxErrorStack    = 16 << 10
	MaxErrorType     = 128

	MaxIdempotencyKey = 255
	// MaxKeys is how many keys of a tenant may be valid at a time.
	MaxKeys        = 10_000
	MaxWait        = 25 * time.Second
	MaxAttempts    = 1000
	MaxPriority    = 9
	MaxConcurrency = 100_000
	// MaxChained bounds the jobs that one outcome submits.
	MaxChained = 100
	// MaxSignals bounds the names of the signals of a job, MaxWaitNames those that it waits for at once, MaxSignalData the data of one,
	// in bytes.
	MaxSignals    = 100
	MaxWaitNames  = 16
	MaxSignalData = 64 << 10
	// MaxDelay bounds delay_ms.
	MaxDelay = 366 * 24 * time.Hour
	// MaxAhead is how far ahead run_at and deadline may lie: ten years.
	MaxAhead = 3653 * 24 * time.Hour
	// MaxTimeout bounds timeout_ms.
	MaxTimeout = 7 * 24 * time.Hour
	// MaxVisibilityTimeout bounds a queue's visibility timeout; the least is 1 s.
	MaxVisibilityTimeout = 12 * time.Hour
	// MaxBackoff bounds retry.base_ms, retry.cap_ms and retry_after_ms.
	MaxBackoff = 7 * 24 * time.Hour
)

// Defaults of a job where neither the request nor its queue says otherwise.
const (
	DefaultQueue             = "default"
	DefaultPriority          = 5
	DefaultMaxAttempts       = 3
	DefaultVisibilityTimeout = 30 * time.Second
	DefaultRetryBase         = 5 * time.Second
	DefaultRetryCap          = 300 * time.Second
	DefaultRetryJitter       = 0.2
	DefaultRetryCurve        = CurveExponential
)

// Curves of a retry policy.
const (
	CurveExponential = "exponential"
	CurveLinear      = "linear"
	CurveConstant    = "constant"
)

// Scopes of a key.
const (
	ScopeSubmit = "submit"
	ScopeRead   = "read"
	ScopeWork   = "work"
	ScopeManage = "manage"
	// ScopePayload shows what the schemas of a type mark with x-sensitive.
	ScopePayload = "payload"
	// ScopeAdmin makes, lists and revokes keys of its tenant, with any scopes.
	ScopeAdmin = "admin"
)

// Scopes lists every scope a tenant key may have.
func Scopes() []string { return append(UserScopes(), ScopeAdmin) }

// UserScopes are those of them that a key may have that is bound to a user.
func UserScopes() []string {
	return []string{ScopeSubmit, ScopeRead, ScopeWork, ScopeManage, ScopePayload}
}

// States of a job.
const (
	StateBlocked    = "blocked"
	StateScheduled  = "scheduled"
	StateWaiting    = "waiting"
	StateQueued     = "queued"
	StateRunning    = "running"
	StateCompleted  = "completed"
	StateDeadLetter = "dead_letter"
	StateCancelled  = "cancelled"
)

// Reasons for a dead letter.
const (
	ReasonExhausted  = "exhausted"
	ReasonPermanent  = "permanent"
	ReasonWorkerLost = "worker_lost"
	ReasonDeadline   = "deadline"
)

// Kinds of an outcome.
const (
	KindComplete = "complete"
	KindFail     = "fail"
	KindSnooze   = "snooze"
	KindRelease  = "release"
	KindWait     = "wait"
)

// Whether a job waits for any of some signals, or for all.
const (
	WaitAny = "any"
	WaitAll = "all"
)

// What has woken a job that waited.
const (
	WokenBySignal  = "signal"
	WokenByTimeout = "timeout"
)

// Statuses of a lease in a heartbeat's answer.
const (
	LeaseOK     = "ok"
	LeaseCancel = "cancel"
	LeaseLost   = "lost"
)

// Statuses of a worker.
const (
	WorkerActive = "ACTIVE"
	WorkerStale  = "STALE"
	WorkerDead   = "DEAD"
)
