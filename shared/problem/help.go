package problem

import (
	"maps"
	"slices"
)

// Help is what a person wants to know who meets a code.
type Help struct {
	Code   Code
	Status int
	Title  string
	// Means says when the answer has this code, Action what to do. Both are Markdown with no more than
	// code in backquotes.
	Means, Action string
}

// Helps gives the help for every code that the public API has, by status and then by name.
func Helps() []Help {
	var all []Help
	for _, code := range slices.Sorted(maps.Keys(helps)) {
		one := helps[code]
		known := lookup(code)
		all = append(all, Help{code, known.status, known.title, one.means, one.action})
	}
	slices.SortStableFunc(all, func(a, b Help) int { return a.Status - b.Status })
	return all
}

type help struct{ means, action string }

// helps has no AssertionExpired: core says it to the gateway only.
var helps = map[Code]help{
	InvalidJSON: {
		"The body is not valid JSON: it has a syntax error, a duplicate member, more than 32 levels, or text that is not UTF-8.",
		"Fix the body. `detail` names the position.",
	},
	InvalidRequest: {
		"A field, a query parameter or a part of the path has a value that is not allowed.",
		"Fix the fields that `errors` names.",
	},
	UnknownField: {
		"The body has a member that this operation does not know.",
		"Remove the member, or correct its spelling. `errors` names it.",
	},
	CostAboveBurst: {
		"The request costs more than one of its rate limits allows at once. Waiting does not help.",
		"Split the request, for example a batch into smaller batches. `policies` names the limit.",
	},
	IdempotencyKeyInvalid: {
		"The header `Idempotency-Key` is malformed.",
		"Send it once, with 1 to 255 visible ASCII characters.",
	},
	Unauthenticated: {
		"The request has no API key, or one that is invalid, expired or revoked. The answer is the same for all of these.",
		"Send `Authorization: Bearer KEY` with a valid key.",
	},
	Forbidden: {
		"The API key is valid, but does not allow this operation.",
		"Use a key with the scope, or for the user, that `detail` names.",
	},
	NotFound: {
		"There is no such resource or path, or it belongs to another tenant or user, or it is past its retention.",
		"Check the path and the id.",
	},
	WorkerUnknown: {
		"The worker is not registered, or it sent no heartbeat for so long that it lost its leases.",
		"Register the worker again, and stop the jobs that it still runs.",
	},
	MethodNotAllowed: {
		"The path exists, but not with this method.",
		"Use one of the methods in the header `Allow`.",
	},
	LeaseLost: {
		"The lease was taken back, or the job has ended. Another worker may be running the job.",
		"Stop working on this job. Do not report an outcome for it.",
	},
	OutcomeConflict: {
		"A different outcome was already recorded for this lease.",
		"Nothing: the first outcome stands.",
	},
	JobTerminal: {
		"The job has already ended, and the operation needs a live job.",
		"Nothing, or redrive the job if it is a dead letter.",
	},
	NotDead: {
		"The job is not a dead letter, and only dead letters can be redriven or discarded.",
		"Read the job: it may already have been redriven.",
	},
	IdempotencyInFlight: {
		"A request with the same `Idempotency-Key` has not ended yet.",
		"Repeat the request in a moment.",
	},
	DedupeConflict: {
		"A live job has the same `dedupe_key`.",
		"Wait until that job has ended, or cancel it.",
	},
	WorkflowEnded: {
		"All jobs of the workflow have ended, so none can be added.",
		"Submit a new workflow, or redrive this one first.",
	},
	JobLive: {
		"The job has not ended, and the operation needs an ended job.",
		"Wait until the job ends, or cancel it. To run it a second time in parallel, submit it again.",
	},
	QueueNotEmpty: {
		"The queue has live jobs or dead letters, and only an empty queue can be deleted. `detail` says how many.",
		"Cancel its jobs or wait until they end, and redrive or discard its dead letters.",
	},
	JobStarted: {
		"The job is running, or has ended, and only a job that waits can be changed.",
		"Run an ended job again with changes: `POST /v1/jobs/{id}/rerun`. Cancel a running one first.",
	},
	PreconditionFailed: {
		"The job is not the version that `If-Match` names: it was changed, or has started or ended, since you read it.",
		"Read the job again, decide whether the change is still right, and send it with the new `ETag`.",
	},
	PayloadTooLarge: {
		"The body is larger than 1 MiB (batches and workflows 8 MiB), or a payload or result is larger than 256 KiB.",
		"Store the data elsewhere and send a reference to it, or split the batch.",
	},
	UnsupportedMediaType: {
		"The request's `Content-Type` is not JSON.",
		"Send `Content-Type: application/json`.",
	},
	HeadersTooLarge: {
		"The request line and headers are larger than 16 KiB.",
		"Send fewer or shorter headers, or a shorter query.",
	},
	IdempotencyMismatch: {
		"The `Idempotency-Key` was already used with a different request.",
		"Use a new key for a new request. Repeat an old request unchanged.",
	},
	TooManyLanes: {
		"The tenant has too many combinations of queue, type and tags (10,000, one user 1,000), or too many queues (1,000, 100 made by one user's jobs).",
		"Use fewer at a time. A combination without jobs that is not used is deleted after about an hour.",
	},
	CostAboveBudget: {
		"An amount of `costs` is above what the budget ever has available: its `burst`, or else its `amount`. The job could never start. Nothing was stored.",
		"Lower the costs, or raise the budget (`PUT /v1/budgets/{name}`).",
	},
	SchemaMismatch: {
		"The payload does not fit the `payload_schema` of the job's type, or the result its `result_schema`. Nothing was stored. `errors` has up to 10 places, as JSON pointers below the field. When a type is set: jobs that wait do not fit its new schema.",
		"Correct the value, or the schema (`GET /v1/types/{type}` shows it). A worker that cannot give another result fails the job. `force=true` stores a schema that waiting jobs do not fit.",
	},
	RateLimited: {
		"A rate limit was reached, or the tenant has 16 unfinished redrives.",
		"Wait for `retry_after_ms`, then repeat the request. `policies` names the limit.",
	},
	ActiveCapReached: {
		"The tenant or the user has as many live jobs as its cap allows.",
		"Repeat the request after `retry_after_ms`: jobs are likely to have ended by then. `policies` names the cap.",
	},
	QueueFull: {
		"The queue has as many live jobs as its cap allows.",
		"Repeat the request after `retry_after_ms`: jobs are likely to have ended by then.",
	},
	WouldWait: {
		"The job's turn is likely to come later than its `max_wait_ms` allows. Nothing was stored.",
		"Repeat the request after `retry_after_ms`, send the job elsewhere, or raise its priority or `max_wait_ms`. `policies` has the estimate.",
	},
	Internal: {
		"The server failed unexpectedly.",
		"Report it with the `request_id`. A request with an `Idempotency-Key` can be repeated.",
	},
	Overloaded: {
		"The service, or your tenant's share of it, is at its limit. Nothing was changed.",
		"Repeat the request after `retry_after_ms`.",
	},
	CoreUnavailable: {
		"The gateway cannot reach core, or core cannot reach PostgreSQL. Nothing was changed.",
		"Repeat the request after `retry_after_ms`.",
	},
	TenantMoving: {
		"An operator moves your tenant to another database, which takes seconds. Nothing was changed.",
		"Repeat the request after `retry_after_ms`.",
	},
	OutcomeUnknown: {
		"The connection broke while the request was carried out. It may or may not have taken effect.",
		"Repeat it with the same `Idempotency-Key`. An outcome can be repeated unchanged.",
	},
}
