package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// submit
//
//	@Summary     Submit jobs
//	@Description One job or a batch for each item, under ids that the gateway drew (UUID v7); `ids`, `jobs` and, where not empty, `problems` run in parallel. All items share a commit. The value is the public answer, ready to be sent.
//	@ID          submits
//	@Tags        Jobs
//	@Param       envelope body api.Envelope[api.HopSubmitRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.SubmitResponse] "An answer for each item."
//	@Success     default {object} api.Results[api.BatchResponse]
//	@x-access    "tenant"
//	@x-problems  ["active_cap_reached", "queue_full", "too_many_lanes", "idempotency_in_flight", "idempotency_mismatch"]
//	@x-example-single {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"], "jobs": [{"type": "hash.sha256", "payload": {"text": "hello"}}]}
//	@Router      /internal/v1/submits [post]

// get
//
//	@Summary     Read jobs
//	@Description The whole job, payload and result included.
//	@ID          gets
//	@Tags        Jobs
//	@Param       envelope body api.Envelope[api.HopGetRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Job] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found"]
//	@x-example-job {"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
//	@Router      /internal/v1/gets [post]

// list
//
//	@Summary     List jobs
//	@Description A page of jobs by a filter, newest id first.
//	@ID          lists
//	@Tags        Jobs
//	@Param       envelope body api.Envelope[api.HopListRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.JobSummary]] "An answer for each item."
//	@x-access    "tenant"
//	@x-example-queued {"filter": {"states": ["queued"]}, "page_size": 50}
//	@Router      /internal/v1/lists [post]

// attempts
//
//	@Summary     List attempts
//	@Description A page of a job's executions, by epoch.
//	@ID          attemptLists
//	@Tags        Jobs
//	@Param       envelope body api.Envelope[api.HopAttemptsRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Attempt]] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found"]
//	@x-example-job {"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "page_size": 50}
//	@Router      /internal/v1/attempt-lists [post]

// cancel
//
//	@Summary     Cancel jobs
//	@Description `requested` says that the job runs, and its worker will be told.
//	@ID          cancels
//	@Tags        Jobs
//	@Param       envelope body api.Envelope[api.HopJobRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.HopCancelResponse] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found", "job_terminal"]
//	@x-example-job {"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
//	@Router      /internal/v1/cancels [post]

// wait
//
//	@Summary     Wait for jobs
//	@Description Answers when the job changes, or after `wait_ms` (25 s at most) with the job as it is. Items wait side by side.
//	@ID          waits
//	@Tags        Jobs
//	@Param       envelope body api.Envelope[api.HopWaitRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Job] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found"]
//	@x-example-ended {"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "wait_ms": 100, "ended": true}
//	@Router      /internal/v1/waits [post]
