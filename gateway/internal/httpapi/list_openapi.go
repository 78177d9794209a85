package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// listJobs
//
//	@Summary     List jobs
//	@Description Jobs without payload, result and stack, newest id first. All filters given must match. A page may be short, or empty, while `next_page_token` is set: go on until it is null. A token belongs to its filters.
//	@Description
//	@Description `metadata.K=V` may be given for several K. A key that is bound to a user lists that user's jobs.
//	@ID          listJobs
//	@Tags        Jobs
//	@Param       queue          query string false "Jobs of this queue."
//	@Param       type           query string false "Jobs of this type."
//	@Param       state          query string false "Jobs in one of these states, with commas between: blocked, scheduled, queued, running, completed, dead_letter, cancelled."
//	@Param       tag            query string false "Jobs with this tag."
//	@Param       user           query string false "Jobs of this user."
//	@Param       metadata       query object false "By metadata: an object with members such as metadata.order, which become parameters of those names."
//	@Param       created_after  query string false "Jobs submitted after this time." Format(date-time)
//	@Param       created_before query string false "Jobs submitted before this time." Format(date-time)
//	@Param       page_size      query int    false "How many at most."
//	@Param       page_token     query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.JobSummary] "A page of jobs."
//	@x-access    "read"
//	@Router      /v1/jobs [get]
