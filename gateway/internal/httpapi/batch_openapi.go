package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// submitBatch
//
//	@Summary     Submit up to 1000 jobs
//	@Description Each job has a status of its own in `results`, in the order sent: some may be accepted and others refused. With `atomic` all are stored or none, and the first bad job's status and problem are the whole answer.
//	@Description
//	@Description A batch costs one request, and one job for each job in it. With an `Idempotency-Key` a repeat of the whole batch gets the first answer again. A body may have 8 MiB.
//	@ID          submitBatch
//	@Tags        Jobs
//	@Param       batch           body   api.BatchRequest true  "The jobs."
//	@Param       Idempotency-Key header string           false "1 to 255 visible ASCII characters, bare or quoted; remembered for a day."
//	@Success     200 {object} api.BatchResponse "An answer for each job."
//	@Header      200 {string} Idempotent-Replayed "`true` where the first answer is given again."
//	@x-access    "submit"
//	@x-problems  ["cost_above_burst", "active_cap_reached", "queue_full", "too_many_lanes"]
//	@x-example-basic  {"jobs": [{"type": "hash.sha256", "payload": {"text": "one"}}, {"type": "hash.sha256", "payload": {"text": "two"}}]}
//	@x-example-whole  {"jobs": [{"type": "hash.sha256", "payload": {"text": "all"}}, {"type": "hash.sha256", "payload": {"text": "or none"}}], "atomic": true}
//	@Router      /v1/jobs/batch [post]
