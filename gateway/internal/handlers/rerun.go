package handlers

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// RerunJob runs an ended job again.
//
//	@Description Submits a new job with the fields of one that has completed, was cancelled or is a dead letter. The old job does not change; the new one names it in `rerun_of`. The optional body overrides fields, as in `POST /v1/jobs`. Absent or null fields are copied. `retry` is merged by member; other lists and objects are replaced.
//	@Description
//	@Description `dedupe_key`, `after`, the workflow, and a `run_at` or `deadline` in the past are not copied. To queue a dead letter itself again, redrive it.
//	@Description
//	@Description Limits and answers are those of `POST /v1/jobs`, including `Idempotency-Key` and `Prefer: wait=n`. A repeat with the same key gets the first answer even if the old job has been deleted.
//	@Param       id              path   string true  "The ended job's id." Format(uuid)
//	@Param       differences     body   api.RerunRequest false "Fields that override those of the old job."
//	@Param       Prefer          header string false "`wait=n`: delay the answer for up to n seconds, until the job has ended."
//	@Success     202 {object} api.SubmitResponse "Accepted: the job is stored."
//	@Header      202 {string} Location "The new job's path."
//	@Header      202 {string} Preference-Applied "`wait=n`, if the request waited."
//	@Success     200 {object} api.SubmitResponse "A live job has the given dedupe_key, or the new job ended while the request waited."
//	@Success     default {object} api.Job
//	@Header      200,202 {string} Idempotent-Replayed "`true` if this is the stored answer of the first request."
//	@Header      200 {string} Location "The job's path."
//	@Header      200 {string} Preference-Applied "`wait=n`, if the request waited."
//	@x-problems  ["job_live", "cost_above_burst", "dedupe_conflict", "active_cap_reached", "queue_full", "would_wait", "too_many_lanes"]
//	@x-example-same    {}
//	@x-example-differs {"payload": {"text": "hello again"}, "priority": 8, "max_attempts": 1, "delay_ms": 1000}
func (h *Handlers) RerunJob(c *call.Call, r api.RerunRequest) (request hop.RerunJobRequest, cost admission.Cost, err error) {
	of, err := c.ID()
	if err != nil {
		return request, cost, err
	}
	if refused := admitFields(&r.SubmitRequest, r.Validate(time.Now()), c.Principal(), ""); refused != nil {
		return request, cost, refused
	}
	cost = admission.Submit(true, c.Idempotency != nil)
	cost.Add(&r.SubmitRequest)
	ids, err := drawIDs(1)
	if err != nil {
		return request, cost, err
	}
	return hop.RerunJobRequest{JobID: of, ID: ids[0], Job: r, Idempotency: c.KeyFor(of)}, cost, nil
}

// Rerun has core store a validated rerun.
func (h *Handlers) Rerun(ctx context.Context, c *call.Call, r hop.RerunJobRequest) (call.Response[hop.SubmitResponse], error) {
	answer, err := call.Send(ctx, h.core, c, hop.RerunJob, r)
	c.Body.Release() // the caller may wait for the job's end
	if err != nil {
		return answer, err
	}
	return h.submitted(ctx, c, answer)
}
