package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// redrive
//
//	@Summary     Redrive a dead letter
//	@Description The job is queued again under its id, its attempts anew.
//	@ID          redrives
//	@Tags        Dead letters
//	@Param       envelope body api.Envelope[api.HopJobRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.JobSummary] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found", "not_dead", "dedupe_conflict", "active_cap_reached", "too_many_lanes"]
//	@x-example-job {"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
//	@Router      /internal/v1/redrives [post]

// deadLetters
//
//	@Summary     List dead letters
//	@Description A page by a filter, newest job id first.
//	@ID          deadLetterLists
//	@Tags        Dead letters
//	@Param       envelope body api.Envelope[api.HopDeadLettersRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.DeadLetter]] "An answer for each item."
//	@x-access    "tenant"
//	@x-example-exhausted {"filter": {"reason": "exhausted"}, "page_size": 50}
//	@Router      /internal/v1/dead-letter-lists [post]

// redriveMany
//
//	@Summary     Redrive dead letters
//	@Description By ids, each with a status of its own; by a filter, by and by, as a redrive; with `dry_run` only how many it would be.
//	@ID          deadLetterRedrives
//	@Tags        Dead letters
//	@Param       envelope body api.Envelope[api.DeadLetterRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.DeadLetterResponse] "An answer for each item."
//	@Success     default {object} api.Results[api.Matched]
//	@Success     202 {object} api.Results[api.Redrive] "By filter: it has begun."
//	@x-access    "tenant"
//	@x-problems  ["rate_limited"]
//	@x-example-ids {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"]}
//	@x-example-filter {"filter": {"queue": "default", "reason": "permanent"}, "rate_per_second": 50}
//	@x-example-dry-run {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"], "dry_run": true}
//	@Router      /internal/v1/dead-letter-redrives [post]

// discardMany
//
//	@Summary     Discard dead letters
//	@Description By ids, each with a status of its own; by a filter, by and by, as a redrive; with `dry_run` only how many it would be.
//	@ID          deadLetterDiscards
//	@Tags        Dead letters
//	@Param       envelope body api.Envelope[api.DeadLetterRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.DeadLetterResponse] "An answer for each item."
//	@Success     default {object} api.Results[api.Matched]
//	@Success     202 {object} api.Results[api.Redrive] "By filter: it has begun."
//	@x-access    "tenant"
//	@x-problems  ["rate_limited"]
//	@x-example-ids {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"]}
//	@x-example-filter {"filter": {"queue": "default", "reason": "permanent"}, "rate_per_second": 50}
//	@Router      /internal/v1/dead-letter-discards [post]
