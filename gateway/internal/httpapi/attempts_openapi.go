package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// listAttempts
//
//	@Summary     List a job's attempts
//	@Description Each execution of the job, oldest first: who ran it, when, how it ended and why. A snooze or release is none. Attempts are kept for 30 days.
//	@ID          listAttempts
//	@Tags        Jobs
//	@Param       id         path  string true  "The job's id." Format(uuid)
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.Attempt] "A page of attempts."
//	@x-access    "read"
//	@Router      /v1/jobs/{id}/attempts [get]
