package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// claims
//
//	@Summary     Claim jobs
//	@Description Items wait side by side, each up to its `wait_ms`. What was leased for an answer that nobody took goes back.
//	@ID          claims
//	@Tags        Workers
//	@Param       envelope body api.Envelope[api.ClaimRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.ClaimResponse] "An answer for each item."
//	@x-access    "worker"
//	@x-problems  ["rate_limited"]
//	@x-example-one {"worker_id": "worker-1", "queues": ["default"]}
//	@Router      /internal/v1/claims [post]

// register
//
//	@Summary     Register workers
//	@Description Makes a worker known, updates it, or revives a DEAD one.
//	@ID          registrations
//	@Tags        Workers
//	@Param       envelope body api.Envelope[api.WorkerRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Worker] "An answer for each item."
//	@x-access    "worker"
//	@x-problems  ["rate_limited"]
//	@x-example-worker {"worker_id": "worker-1", "queues": ["default"], "concurrency": 10}
//	@Router      /internal/v1/registrations [post]

// heartbeat
//
//	@Summary     Keep leases alive
//	@Description The worker first, then its leases, each answered in the order sent.
//	@ID          heartbeats
//	@Tags        Workers
//	@Param       envelope body api.Envelope[api.HopHeartbeatRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.HeartbeatResponse] "An answer for each item."
//	@x-access    "worker"
//	@x-problems  ["worker_unknown"]
//	@x-example-lease {"worker_id": "worker-1", "leases": [{"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "lease_token": "LEASE_TOKEN"}]}
//	@Router      /internal/v1/heartbeats [post]

// outcomes
//
//	@Summary     Report outcomes
//	@Description Up to 1000 for each item, each with a status of its own: 409 `lease_lost`, 409 `outcome_conflict` or 404 `not_found` among them. All items share commits.
//	@ID          outcomes
//	@Tags        Workers
//	@Param       envelope body api.Envelope[api.OutcomesRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.OutcomesResponse] "An answer for each item."
//	@x-access    "worker"
//	@x-example-complete {"outcomes": [{"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "kind": "complete", "lease_token": "LEASE_TOKEN", "result": {"ok": true}}]}
//	@Router      /internal/v1/outcomes [post]

// listWorkers
//
//	@Summary     List workers
//	@Description A page of the tenant's workers, or of the platform's.
//	@ID          workerLists
//	@Tags        Workers
//	@Param       envelope body api.Envelope[api.HopPageRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Worker]] "An answer for each item."
//	@x-access    "worker"
//	@x-example-first {"page_size": 50}
//	@Router      /internal/v1/worker-lists [post]
