package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// submitJob
//
//	@Summary     Submit a job
//	@Description Stores one job. 202 with the job as it waits, and `Location`; `warnings` say what keeps it waiting, such as a paused queue.
//	@Description
//	@Description With an `Idempotency-Key` a repeat gets the first answer again, marked `Idempotent-Replayed: true`: repeat safely when an answer was lost. With a `dedupe_key` that a live job has, 200 with that job and `deduplicated` true.
//	@Description
//	@Description `Prefer: wait=n` holds the answer for up to n seconds (25 at most): 200 with the whole job, result and all, where it has ended by then, else 202.
//	@ID          submitJob
//	@Tags        Jobs
//	@Param       job             body   api.SubmitRequest true  "The job. Only `type` is required."
//	@Param       Idempotency-Key header string            false "1 to 255 visible ASCII characters, bare or quoted; remembered for a day."
//	@Param       Prefer          header string            false "`wait=n`: hold the answer for up to n seconds."
//	@Success     202 {object} api.SubmitResponse "Accepted: the job is stored."
//	@Header      202 {string} Location "The job's path."
//	@Header      202 {string} Preference-Applied "`wait=n`, where it was waited for."
//	@Success     200 {object} api.SubmitResponse "A live job has the same dedupe_key, or the job has ended while the request waited."
//	@Success     default {object} api.Job
//	@Header      200,202 {string} Idempotent-Replayed "`true` where the first answer is given again."
//	@Header      200 {string} Location "The job's path, where the request waited for it."
//	@Header      200 {string} Preference-Applied "`wait=n`, where it was waited for."
//	@x-access    "submit"
//	@x-problems  ["cost_above_burst", "active_cap_reached", "queue_full", "too_many_lanes"]
//	@x-example-basic      {"type": "hash.sha256", "payload": {"text": "hello"}}
//	@x-example-scheduled {"type": "report.monthly", "queue": "reports", "delay_ms": 60000, "priority": 3, "max_attempts": 5, "timeout_ms": 120000, "retry": {"base_ms": 10000, "cap_ms": 600000, "jitter": 0.2}}
//	@x-example-everything {"type": "mail.send", "queue": "mail", "payload": {"to": "ada@example.com", "template": "welcome"}, "priority": 7, "tags": ["smtp"], "user": "ada", "metadata": {"order": "1042"}, "dedupe_key": "welcome-ada", "deadline": "2035-01-01T00:00:00Z"}
//	@Router      /v1/jobs [post]

// getJob
//
//	@Summary     Read a job
//	@Description The whole job, with payload, result and the last error's stack, and an `ETag`.
//	@Description
//	@Description `Prefer: wait=n` holds the answer until the state changes, n seconds at most (25). With `If-None-Match` too, a job that has changed already is answered at once, and one that has not by then is 304: the way to follow a job.
//	@ID          getJob
//	@Tags        Jobs
//	@Param       id            path   string true  "The job's id." Format(uuid)
//	@Param       Prefer        header string false "`wait=n`: hold the answer for up to n seconds, until the state changes."
//	@Param       If-None-Match header string false "The ETag of what you have."
//	@Success     200 {object} api.Job "The job."
//	@Header      200,304 {string} ETag "Changes with anything in the answer."
//	@Header      200,304 {string} Preference-Applied "`wait=n`, where it was waited for."
//	@Success     304 "The job is as If-None-Match names it."
//	@x-access    "read"
//	@Router      /v1/jobs/{id} [get]
