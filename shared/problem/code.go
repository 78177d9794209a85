package problem

import "net/http"

// Code is one of the closed set of problem codes.
type Code string

// The codes, by status. CONTRACT names each; none is ever renamed.
const (
	InvalidJSON           Code = "invalid_json"
	InvalidRequest        Code = "invalid_request"
	UnknownField          Code = "unknown_field"
	CostAboveBurst        Code = "cost_above_burst"
	IdempotencyKeyInvalid Code = "idempotency_key_invalid"

	Unauthenticated Code = "unauthenticated"
	Forbidden       Code = "forbidden"
	// AssertionExpired is said by core to the gateway only: the signature is
	// good but its time is not. The gateway answers it by itself.
	AssertionExpired Code = "assertion_expired"

	NotFound         Code = "not_found"
	WorkerUnknown    Code = "worker_unknown"
	MethodNotAllowed Code = "method_not_allowed"

	LeaseLost           Code = "lease_lost"
	OutcomeConflict     Code = "outcome_conflict"
	JobTerminal         Code = "job_terminal"
	NotDead             Code = "not_dead"
	IdempotencyInFlight Code = "idempotency_in_flight"
	DedupeConflict      Code = "dedupe_conflict"
	WorkflowEnded       Code = "workflow_ended"
	JobLive             Code = "job_live"
	QueueNotEmpty       Code = "queue_not_empty"
	JobStarted          Code = "job_started"

	PreconditionFailed Code = "precondition_failed"

	PayloadTooLarge      Code = "payload_too_large"
	UnsupportedMediaType Code = "unsupported_media_type"
	HeadersTooLarge      Code = "headers_too_large"

	IdempotencyMismatch Code = "idempotency_mismatch"
	TooManyLanes        Code = "too_many_lanes"
	SchemaMismatch      Code = "schema_mismatch"
	CostAboveBudget     Code = "cost_above_budget"

	RateLimited      Code = "rate_limited"
	ActiveCapReached Code = "active_cap_reached"
	QueueFull        Code = "queue_full"
	WouldWait        Code = "would_wait"

	Internal        Code = "internal"
	Overloaded      Code = "overloaded"
	CoreUnavailable Code = "core_unavailable"
	TenantMoving    Code = "tenant_moving"
	OutcomeUnknown  Code = "outcome_unknown"
)

type meaning struct {
	status int
	title  string
}

var meanings = map[Code]meaning{
	InvalidJSON:           {http.StatusBadRequest, "The body is not valid JSON"},
	InvalidRequest:        {http.StatusBadRequest, "The request cannot be accepted as it is"},
	UnknownField:          {http.StatusBadRequest, "The request names a field that does not exist"},
	CostAboveBurst:        {http.StatusBadRequest, "The request costs more than its limit ever allows at once"},
	IdempotencyKeyInvalid: {http.StatusBadRequest, "The Idempotency-Key header is malformed"},
	Unauthenticated:       {http.StatusUnauthorized, "The request carries no valid credential"},
	AssertionExpired:      {http.StatusUnauthorized, "The signature's time is outside the accepted window"},
	Forbidden:             {http.StatusForbidden, "The credential does not allow this"},
	NotFound:              {http.StatusNotFound, "There is no such resource"},
	WorkerUnknown:         {http.StatusNotFound, "There is no such worker, or it is dead"},
	MethodNotAllowed:      {http.StatusMethodNotAllowed, "The resource does not have this method"},
	LeaseLost:             {http.StatusConflict, "The lease is no longer held"},
	OutcomeConflict:       {http.StatusConflict, "Another outcome was already recorded for this lease"},
	JobTerminal:           {http.StatusConflict, "The job has already ended"},
	NotDead:               {http.StatusConflict, "The job is not a dead letter"},
	IdempotencyInFlight:   {http.StatusConflict, "A request with this Idempotency-Key is still under way"},
	DedupeConflict:        {http.StatusConflict, "A live job has the same dedupe_key"},
	WorkflowEnded:         {http.StatusConflict, "The workflow has already ended"},
	JobLive:               {http.StatusConflict, "The job has not ended"},
	QueueNotEmpty:         {http.StatusConflict, "The queue holds jobs"},
	JobStarted:            {http.StatusConflict, "The job has started"},
	PreconditionFailed:    {http.StatusPreconditionFailed, "The resource is not the version in If-Match"},
	PayloadTooLarge:       {http.StatusRequestEntityTooLarge, "The body is too large"},
	UnsupportedMediaType:  {http.StatusUnsupportedMediaType, "The body must be application/json"},
	HeadersTooLarge:       {http.StatusRequestHeaderFieldsTooLarge, "The headers are too large"},
	IdempotencyMismatch:   {http.StatusUnprocessableEntity, "The Idempotency-Key was used with another body"},
	TooManyLanes:          {http.StatusUnprocessableEntity, "The tenant has too many combinations of queue, type and tags"},
	SchemaMismatch:        {http.StatusUnprocessableEntity, "A payload or result does not fit the schema of its type"},
	CostAboveBudget:       {http.StatusBadRequest, "The job may cost more than its budget ever holds"},
	RateLimited:           {http.StatusTooManyRequests, "Too many requests"},
	ActiveCapReached:      {http.StatusTooManyRequests, "Too many active jobs"},
	QueueFull:             {http.StatusTooManyRequests, "The queue holds as many jobs as it may"},
	WouldWait:             {http.StatusTooManyRequests, "The job would wait for longer than it may"},
	Internal:              {http.StatusInternalServerError, "Something went wrong on our side"},
	Overloaded:            {http.StatusServiceUnavailable, "The service is at its limit"},
	CoreUnavailable:       {http.StatusServiceUnavailable, "The engine cannot be reached"},
	TenantMoving:          {http.StatusServiceUnavailable, "The tenant is being moved to another database"},
	OutcomeUnknown:        {http.StatusServiceUnavailable, "It is not known whether the request took effect"},
}

// lookup gives a code's meaning; a code outside the set is an internal error,
// so that a slip never invents a status.
func lookup(code Code) meaning {
	if known, ok := meanings[code]; ok {
		return known
	}
	return meanings[Internal]
}

// Codes lists every code, for documents and for tests that want all of them.
func Codes() []Code {
	codes := make([]Code, 0, len(meanings))
	for code := range meanings {
		codes = append(codes, code)
	}
	return codes
}

// Known says whether code is in the set.
func Known(code Code) bool {
	_, ok := meanings[code]
	return ok
}
