package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// completeJob
//
//	@Summary     Complete a job
//	@Description The job has ended well; `result` is kept with it. A repeat with the same token and body gets the same answer.
//	@Description
//	@Description 409 `lease_lost`: the lease ran out and was taken back; what you did may be done again by another. 409 `outcome_conflict`: this lease has already ended otherwise.
//	@ID          completeJob
//	@Tags        Workers
//	@Param       id      path string              true "The job's id." Format(uuid)
//	@Param       outcome body api.CompleteRequest true "The lease, and what came of it."
//	@Success     200 {object} api.Outcome "The job is completed."
//	@x-access    "work platform"
//	@x-problems  ["lease_lost", "outcome_conflict"]
//	@x-example-result {"lease_token": "LEASE_TOKEN", "result": {"sha256": "2cf24dba5fb0a30e"}}
//	@Router      /v1/jobs/{id}/complete [post]

// failJob
//
//	@Summary     Report a failed attempt
//	@Description The job waits for its next attempt, by its backoff or by `retry_after_ms`; with its attempts spent, or `permanent`, it becomes a dead letter with this error. The message is cut to 4 KiB, the stack to 16 KiB.
//	@ID          failJob
//	@Tags        Workers
//	@Param       id      path string          true "The job's id." Format(uuid)
//	@Param       outcome body api.FailRequest true "The lease, and what went wrong."
//	@Success     200 {object} api.Outcome "Where the job stands now."
//	@x-access    "work platform"
//	@x-problems  ["lease_lost", "outcome_conflict"]
//	@x-example-again     {"lease_token": "LEASE_TOKEN", "error": {"type": "timeout", "message": "the mail server did not answer", "stack": ""}, "retry_after_ms": 30000}
//	@x-example-permanent {"lease_token": "LEASE_TOKEN", "error": {"type": "bad_address", "message": "no such mailbox"}, "permanent": true}
//	@Router      /v1/jobs/{id}/fail [post]

// snoozeJob
//
//	@Summary     Put a job back for a while
//	@Description The job is not ready yet: it waits for `delay_ms`, and the attempt is given back. `error`, where given, says why and is shown as the job's last error.
//	@ID          snoozeJob
//	@Tags        Workers
//	@Param       id      path string            true "The job's id." Format(uuid)
//	@Param       outcome body api.SnoozeRequest true "The lease, and for how long."
//	@Success     200 {object} api.Outcome "The job is scheduled."
//	@x-access    "work platform"
//	@x-problems  ["lease_lost", "outcome_conflict"]
//	@x-example-minute {"lease_token": "LEASE_TOKEN", "delay_ms": 60000}
//	@Router      /v1/jobs/{id}/snooze [post]

// releaseJob
//
//	@Summary     Put a job back at once
//	@Description For a worker that stops, or took too much: the job is queued again, and the attempt is given back.
//	@ID          releaseJob
//	@Tags        Workers
//	@Param       id      path string             true "The job's id." Format(uuid)
//	@Param       outcome body api.ReleaseRequest true "The lease."
//	@Success     200 {object} api.Outcome "The job is queued."
//	@x-access    "work platform"
//	@x-problems  ["lease_lost", "outcome_conflict"]
//	@x-example-release {"lease_token": "LEASE_TOKEN"}
//	@Router      /v1/jobs/{id}/release [post]

// reportOutcomes
//
//	@Summary     Report up to 1000 outcomes
//	@Description Outcomes of any kind, each with a status of its own in `results`, in the order sent: 200 with an outcome, or a problem such as 409 `lease_lost`. Each kind takes the fields of its own route and no others.
//	@ID          reportOutcomes
//	@Tags        Workers
//	@Param       outcomes body api.OutcomesRequest true "The outcomes."
//	@Success     200 {object} api.OutcomesResponse "An answer for each outcome."
//	@x-access    "work platform"
//	@x-example-complete {"outcomes": [{"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "kind": "complete", "lease_token": "LEASE_TOKEN", "result": {"ok": true}}]}
//	@x-example-fail     {"outcomes": [{"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "kind": "fail", "lease_token": "LEASE_TOKEN", "error": {"type": "timeout", "message": "no answer"}}]}
//	@Router      /v1/outcomes [post]
