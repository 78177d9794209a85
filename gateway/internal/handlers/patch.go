package handlers

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// PatchJob changes a job that waits.
//
//	@Description Changes what is given of a job that has not ended and does not run; what is absent, or null, stays. `tags` and `metadata` are replaced as a whole. The job keeps its place in its queue, by age, unless keys take turns there or have a limit. `queue` moves it to another queue, if `max_active` of that queue has room. `run_at` in the past starts it now; for a job that waits for signals it is when it stops to.
//	@Description
//	@Description Either the change or a claim of the job comes first: a job that runs, or has ended, is 409 `job_started`, and nothing is changed. With `If-Match` and the `ETag` of `GET /v1/jobs/{id}`, a job that is another version by now is 412. A payload is checked by the schema of the job's type.
//	@Param       patch    body   api.JobPatch true  "What changes."
//	@Param       If-Match header string       false "The ETag of the version that is to be changed."
//	@Success     200 {object} api.Job "The job as it is now."
//	@Header      200 {string} ETag "That of the new version."
//	@x-problems  ["job_started", "precondition_failed", "queue_full", "too_many_lanes", "schema_mismatch"]
//	@x-example-priority {"priority": 9}
//	@x-example-content {"payload": {"text": "hello, again"}, "run_at": "2035-01-01T00:00:00Z", "metadata": {"order": "1043"}}
func (h *Handlers) PatchJob(ctx context.Context, c *call.Call, r api.JobPatch) (call.Response[json.RawMessage], error) {
	var nothing call.Response[json.RawMessage]
	id, err := c.ID()
	if err != nil {
		return nothing, err
	}
	if len(r.Payload) > api.MaxPayload {
		return nothing, fieldTooLarge("payload")
	}
	if fields := r.Validate(time.Now()); len(fields) > 0 {
		return nothing, problem.Invalid(fields...)
	}
	tags, all := request.Match(c.IfMatch)
	if !all && len(tags) == 0 {
		return nothing, problem.New(problem.PreconditionFailed, "If-Match names no strong ETag. Send the ETag of GET /v1/jobs/{id} as it was given.")
	}
	answer, err := call.Send(ctx, h.core, c, hop.Raw(hop.PatchJob), hop.PatchJobRequest{ID: id, Patch: r, IfMatch: tags})
	if err != nil {
		return nothing, err
	}
	return call.Response[json.RawMessage]{Status: http.StatusOK, Value: answer.Value, ETag: hop.ETag(answer.Value)}, nil
}
