package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// cancelJob
//
//	@Summary     Cancel a job
//	@Description A job that waits is cancelled at once: 200, and 200 again for a repeat. A job that runs is asked to stop: 202, and its worker hears of it with the next heartbeat. If the worker completes it all the same, completed stands; anything else ends it as cancelled.
//	@ID          cancelJob
//	@Tags        Jobs
//	@Param       id path string true "The job's id." Format(uuid)
//	@Success     200 {object} api.JobSummary "The job is cancelled."
//	@Success     202 {object} api.JobSummary "The job runs; its worker will be told."
//	@x-access    "submit"
//	@x-problems  ["job_terminal"]
//	@Router      /v1/jobs/{id}/cancel [post]
