package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// listDeadLetters
//
//	@Summary     List dead letters
//	@Description Jobs that died, newest id first, with why, the last error, and a fingerprint that errors of one kind share. A page may be short, or empty, while `next_page_token` is set. Dead letters are kept for 30 days.
//	@ID          listDeadLetters
//	@Tags        Dead letters
//	@Param       queue       query string false "Of this queue."
//	@Param       type        query string false "Of this type."
//	@Param       reason      query string false "That died of this." Enums(exhausted, permanent, worker_lost, deadline)
//	@Param       fingerprint query string false "Whose error is of this kind."
//	@Param       after       query string false "That died after this time." Format(date-time)
//	@Param       before      query string false "That died before this time." Format(date-time)
//	@Param       page_size   query int    false "How many at most."
//	@Param       page_token  query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.DeadLetter] "A page of dead letters."
//	@x-access    "read"
//	@Router      /v1/dead-letters [get]

// redriveJob
//
//	@Summary     Redrive a dead letter
//	@Description The job is queued again under its id, with its attempts anew; a deadline that has passed is cleared. Any other job is 409 `not_dead`, and so is this one for a repeat.
//	@ID          redriveJob
//	@Tags        Dead letters
//	@Param       id path string true "The job's id." Format(uuid)
//	@Success     202 {object} api.JobSummary "The job is queued again."
//	@x-access    "manage"
//	@x-problems  ["not_dead", "dedupe_conflict", "active_cap_reached", "too_many_lanes"]
//	@Router      /v1/jobs/{id}/redrive [post]

// redriveDeadLetters
//
//	@Summary     Redrive dead letters
//	@Description Up to 1000 by their ids, each with a status of its own in `results`, in the order sent. With `dry_run` nothing changes, and the answer is how many it would be.
//	@ID          redriveDeadLetters
//	@Tags        Dead letters
//	@Param       which body api.DeadLetterRequest true "Which ones."
//	@Success     200 {object} api.DeadLetterResponse "An answer for each; with `dry_run` only how many."
//	@Success     default {object} api.Matched
//	@x-access    "manage"
//	@x-example-ids     {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"]}
//	@x-example-dry-run {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"], "dry_run": true}
//	@Router      /v1/dead-letters/redrive [post]

// discardDeadLetters
//
//	@Summary     Discard dead letters
//	@Description Up to 1000 are forgotten for good, answered as for a redrive. A repeat finds nothing: 404 for each.
//	@ID          discardDeadLetters
//	@Tags        Dead letters
//	@Param       which body api.DeadLetterRequest true "Which ones."
//	@Success     200 {object} api.DeadLetterResponse "An answer for each; with `dry_run` only how many."
//	@Success     default {object} api.Matched
//	@x-access    "manage"
//	@x-example-ids     {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"]}
//	@x-example-dry-run {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"], "dry_run": true}
//	@Router      /v1/dead-letters/discard [post]
