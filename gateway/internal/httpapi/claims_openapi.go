package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// claim
//
//	@Summary     Claim jobs
//	@Description Leases up to `max` jobs of the queues named to the caller, waiting up to `wait_ms` for the first. None is a good answer: 200 with an empty list. A job is given only to a worker that has all of its tags.
//	@Description
//	@Description Each job comes with its `lease_token`, which every later call about it must show, and `lease_ms`: finish or send a heartbeat before that. A caller that hangs up before the answer gives its jobs back.
//	@ID          claim
//	@Tags        Workers
//	@Param       claim body api.ClaimRequest true "Who claims, and from where."
//	@Success     200 {object} api.ClaimResponse "The jobs that are now leased to you; often none."
//	@x-access    "work platform"
//	@x-example-one     {"worker_id": "worker-1", "queues": ["default"]}
//	@x-example-waiting {"worker_id": "worker-1", "queues": ["default", "mail"], "tags": ["smtp"], "max": 10, "wait_ms": 1000}
//	@Router      /v1/claims [post]
