package handlers

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
)

// RerunJob answers POST /v1/jobs/{id}/rerun as SubmitJob does, with a new job like the
// ended one. The body says in what it differs, and may be absent. A user-bound key runs
// its own user's jobs again; others are 404.
//
//	@Summary     Run an ended job again
//	@Description Submits a new job like one that has completed, was cancelled or is a dead letter; the old one stays as it is, and the new one names it as `rerun_of`. The body may be absent: it says in what the new job differs, field by field as in `POST /v1/jobs`. What is absent, or null, is as it was. `retry` is changed by member; a list or an object that is given takes the place of the old one.
//	@Description
//	@Description Not taken over are `dedupe_key`, `after` and the workflow, nor a `run_at` or `deadline` that has passed. To queue a dead letter itself again, redrive it.
//	@Description
//	@Description It costs what `POST /v1/jobs` costs, and is answered like it, `Idempotency-Key` and `Prefer: wait=n` included. A repeat with the key gets the first answer also when the old job is no longer kept.
//	@ID          rerunJob
//	@Tags        Jobs
//	@Param       id              path   string true  "The ended job's id." Format(uuid)
//	@Param       differences     body   api.RerunRequest false "In what the new job differs."
//	@Param       Idempotency-Key header string false "1 to 255 visible ASCII characters, bare or quoted; remembered for a day."
//	@Param       Prefer          header string false "`wait=n`: hold the answer for up to n seconds."
//	@Success     202 {object} api.SubmitResponse "Accepted: the job is stored."
//	@Header      202 {string} Location "The new job's path."
//	@Header      202 {string} Preference-Applied "`wait=n`, where it was waited for."
//	@Success     200 {object} api.SubmitResponse "A live job has the dedupe_key that was given, or the new job has ended while the request waited."
//	@Success     default {object} api.Job
//	@Header      200,202 {string} Idempotent-Replayed "`true` where the first answer is given again."
//	@Header      200 {string} Location "The job's path."
//	@Header      200 {string} Preference-Applied "`wait=n`, where it was waited for."
//	@x-access    "submit"
//	@x-problems  ["job_live", "cost_above_burst", "active_cap_reached", "queue_full", "too_many_lanes"]
//	@x-example-same    {}
//	@x-example-differs {"payload": {"text": "hello again"}, "priority": 8, "max_attempts": 1, "delay_ms": 1000}
//	@Router      /v1/jobs/{id}/rerun [post]
func (h *Handlers) RerunJob(ctx context.Context, c *Call, r api.RerunRequest) (Response[api.HopSubmitResponse], error) {
	var nothing Response[api.HopSubmitResponse]
	of, err := c.id()
	if err != nil {
		return nothing, err
	}
	if refused := admitFields(&r.SubmitRequest, r.Validate(time.Now()), c.Principal(), ""); refused != nil {
		return nothing, refused
	}
	brought := admission.Submit(true, c.Idempotency != nil)
	brought.Add(&r.SubmitRequest)
	if err := h.limiter.Charge(ctx, &c.Account, brought); err != nil {
		return nothing, err
	}
	drawn, err := uuid.NewV7()
	if err != nil {
		return nothing, fmt.Errorf("draw a job id: %w", err)
	}
	op := coreclient.Write(api.HopRerun)
	if c.Idempotency != nil {
		op = coreclient.KeyedWrite(api.HopRerun)
		c.Idempotency.Operation += " " + of // the body does not name it
	}
	answer, err := send[api.HopRerunRequest, api.HopSubmitResponse](ctx, h, c, op,
		api.HopRerunRequest{JobID: of, ID: drawn.String(), Job: r, Idempotency: c.Idempotency})
	c.Body.Release() // the caller may wait for the job's end
	if err != nil {
		h.limiter.NoteCaps(ctx, c.Principal().Tenant, brought, err)
		return answer, err
	}
	return h.submitted(ctx, c, answer)
}
