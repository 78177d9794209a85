package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// registerWorker
//
//	@Summary     Register a worker
//	@Description Makes a worker known, updates one that is, or revives one that is DEAD. Claiming registers too; this is for workers that want to say more of themselves, such as their tags.
//	@ID          registerWorker
//	@Tags        Workers
//	@Param       worker body api.WorkerRequest true "The worker."
//	@Success     200 {object} api.Worker "The worker as it is known now."
//	@x-access    "work platform"
//	@x-example-worker {"worker_id": "worker-1", "queues": ["default"], "tags": ["smtp"], "concurrency": 10, "metadata": {"host": "a1"}}
//	@Router      /v1/workers [post]

// heartbeat
//
//	@Summary     Keep a worker and its leases alive
//	@Description Extends each lease by its queue's visibility timeout, never past the job's start + `timeout_ms`, and answers in the order sent: `ok`; `cancel` (extended, but stop: somebody asked for it); `lost` (stop at once, the job is somebody else's). Send it every third of `lease_ms`.
//	@Description
//	@Description 404 `worker_unknown`: the worker was taken for dead, and its leases were given to others. Register again.
//	@ID          heartbeat
//	@Tags        Workers
//	@Param       worker_id path string               true  "The worker's name."
//	@Param       leases    body api.HeartbeatRequest false "The leases that it holds; up to 1000."
//	@Success     200 {object} api.HeartbeatResponse "How each lease stands."
//	@x-access    "work platform"
//	@x-example-lease {"leases": [{"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "lease_token": "LEASE_TOKEN"}]}
//	@x-example-idle  {}
//	@Router      /v1/workers/{worker_id}/heartbeat [post]

// listWorkers
//
//	@Summary     List workers
//	@Description The tenant's own workers, by name; for a platform key the platform's. STALE: not heard of for a while. DEAD: its leases were taken back.
//	@ID          listWorkers
//	@Tags        Workers
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.Worker] "A page of workers."
//	@x-access    "read platform"
//	@Router      /v1/workers [get]
