package handlers

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// AppendOutput appends to a job's output.
//
//	@Description What the job's handler says while it runs: up to 100 chunks of up to 16 KiB of text, numbered from 1 on in each attempt. A chunk whose number was there is left out, so a request can be repeated. Only the holder of the lease can append. 1 MiB of a job's output is kept: beyond that its first half and its end, and `gap` says where something is missing. Output is kept as long as failed attempts are.
//	@Tags        Workers
//	@Param       output body api.OutputRequest true "The lease token and the chunks."
//	@Success     202 {object} api.OutputAccepted "The number of the next chunk."
//	@x-problems  ["lease_lost"]
//	@x-example-lines {"lease_token": "LEASE_TOKEN", "chunks": [{"seq": 1, "stream": "out", "text": "page 1 of 3\n"}, {"seq": 2, "stream": "err", "text": "page 2 is empty\n"}]}
func (*Handlers) AppendOutput(c *call.Call, r api.OutputRequest) (hop.AppendOutputRequest, admission.Cost, error) {
	cost := admission.Reports(1)
	id, err := c.ID()
	if err != nil {
		return hop.AppendOutputRequest{}, cost, err
	}
	if fields := r.Validate(); len(fields) > 0 {
		return hop.AppendOutputRequest{}, cost, problem.Invalid(fields...)
	}
	return hop.AppendOutputRequest{ID: id, Output: r}, cost, nil
}

// StoreOutput has core store validated output.
func (h *Handlers) StoreOutput(ctx context.Context, c *call.Call, r hop.AppendOutputRequest) (call.Response[api.OutputAccepted], error) {
	answer, err := call.Send(ctx, h.core, c, hop.AppendOutput, r)
	if err != nil {
		return call.Response[api.OutputAccepted]{}, err
	}
	answer.Status = http.StatusAccepted
	return answer, nil
}

// ReadOutput reads a job's output.
//
//	@Description What the job has said, the oldest first; with `after` what came after that chunk. `more` says that there is more: ask again with the `id` of the last item. With `Accept: text/plain` it is the text of all of it. `GET /v1/jobs/{id}/events` follows it.
//	@ID          readOutput
//	@Tags        Jobs
//	@Summary     Read a job's output
//	@Param       id    path  string true  "The job's id." Format(uuid)
//	@Param       after query string false "The `id` of a chunk: EPOCH.SEQ."
//	@Produce     json,plain
//	@Success     200 {object} api.OutputPage "The chunks."
//	@x-access    "read"
//	@Router      /v1/jobs/{id}/output [get]
func (h *Handlers) ReadOutput(ctx context.Context, c *call.Call) (api.OutputPage, error) {
	id, err := c.ID()
	if err != nil {
		return api.OutputPage{}, err
	}
	after, ok := api.OutputPlace{}, true
	if c.Query.Has("after") {
		after, ok = api.ParseOutputPlace(c.Query.Get("after"))
	}
	if !ok {
		return api.OutputPage{}, problem.Invalid(problem.FieldError{Field: "after", Message: "must be the id of a chunk, such as 1.7"})
	}
	return h.OutputAfter(ctx, c, id, after)
}

// OutputAfter reads what a job has said after a chunk.
func (h *Handlers) OutputAfter(ctx context.Context, c *call.Call, id string, after api.OutputPlace) (api.OutputPage, error) {
	answer, err := call.Send(ctx, h.core, c, hop.ReadOutput, hop.ReadOutputRequest{ID: id, Epoch: after.Epoch, Seq: after.Seq})
	return answer.Value, err
}
