package operations

import (
	"context"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/core/internal/principals"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// SubmitJobs submits jobs: one job or a batch for each item, under ids that the gateway drew (UUID v7).
// `ids`, `jobs` and, where not empty, `problems` run in parallel. All items share a commit. The value is
// the public answer, ready to be sent.
//
//	@Success     200 {object} hop.Results[api.SubmitResponse] "An answer for each item."
//	@Success     default {object} hop.Results[api.BatchResponse]
//	@x-problems  ["dedupe_conflict", "active_cap_reached", "queue_full", "would_wait", "too_many_lanes", "cost_above_budget", "idempotency_in_flight", "idempotency_mismatch"]
//	@x-example-single {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"], "jobs": [{"type": "hash.sha256", "payload": {"text": "hello"}}]}
func (o *Operations) SubmitJobs(ctx context.Context, items []hop.Item[hop.SubmitJobsRequest]) []hop.Result[hop.SubmitResponse] {
	results := make([]hop.Result[hop.SubmitResponse], len(items))
	calls := make([]submits.Call, 0, len(items))
	places := make([]int, 0, len(items))
	spans := answers.Spans(ctx, items)
	for i := range items {
		call, err := submitCall(&items[i])
		if err != nil {
			results[i] = answers.Result[hop.SubmitJobsRequest, hop.SubmitResponse](ctx, &items[i], nil, err)
			continue
		}
		if spans != nil {
			call.Span = spans[i].SpanContext()
		}
		calls, places = append(calls, call), append(places, i)
	}
	for i, answer := range o.Engine.Submits.Submit(ctx, calls) {
		results[places[i]] = submitResult(ctx, &items[places[i]], &answer)
	}
	for i, span := range spans {
		answers.EndSpan(span, &results[i])
	}
	return results
}

// submitCall reads an item. The gateway has validated what its caller asks for, and names
// the fields as the caller does. Core checks
//   - what only core knows: the tenant, and that the ids' times are near its own clock;
//   - what its tables rely on, so that a faulty gateway gets a 400 and not a 500: that the lists
//     run in parallel, and each job, by SubmitRequest.Validate. Most of its rules keep out a
//     value that a column or an index refuses, or that a later statement or a Go duration
//     cannot hold, so there is no second, shorter list of rules. It looks at the payload's length
//     only, and costs little beside the decoding of the job.
func submitCall(item *hop.Item[hop.SubmitJobsRequest]) (submits.Call, error) {
	request := &item.Request
	owner, err := principals.OfTenant(item.Principal)
	if err != nil {
		return submits.Call{}, err
	}
	n := len(request.Jobs)
	if n == 0 || n > api.MaxBatchJobs || len(request.IDs) != n || (!request.Batch && n != 1) ||
		(request.Problems != nil && len(request.Problems) != n) {
		return submits.Call{}, problem.New(problem.InvalidRequest, "ids, jobs and problems must run in parallel, 1 to 1000 of them.")
	}
	call := submits.Call{
		Tenant: owner, User: item.Principal.User, IDs: make([]uuid.UUID, n), Jobs: request.Jobs, Refused: request.Problems,
		Batch: request.Batch, Atomic: request.Atomic, Shared: item.Shared, Render: renderSubmit,
		CorrelationID: item.CorrelationID, Traceparent: item.Traceparent,
	}
	now := time.Now()
	for i, text := range request.IDs {
		if call.IDs[i], err = uuid.Parse(text); err != nil {
			return call, problem.New(problem.InvalidRequest, "ids must be UUIDs.")
		}
		if err := checkID(call.IDs[i], now); err != nil {
			return call, err
		}
		if call.Refused == nil || call.Refused[i] == nil {
			if fields := request.Jobs[i].Validate("", now); len(fields) > 0 {
				return call, problem.Invalid(fields...)
			}
		}
	}
	if request.Workflow != nil {
		if err := workflowOf(&call, request, now); err != nil {
			return call, err
		}
	}
	if request.Idempotency != nil {
		call.Idempotency, err = idempotencyOf(request.Idempotency)
	}
	return call, err
}

// checkID checks that the time of an id is near core's own clock.
func checkID(id uuid.UUID, now time.Time) error {
	if !retention.ValidID(id, now) {
		return problem.New(problem.Overloaded, "The gateway's clock is ahead of core's by many hours, or it makes no UUIDs of version 7. Nothing was stored.")
	}
	return nil
}

func idempotencyOf(given *hop.Idempotency) (*submit.Idempotency, error) {
	fingerprint, err := hex.DecodeString(given.Fingerprint)
	if err != nil || len(fingerprint) != 32 {
		return nil, problem.New(problem.InvalidRequest, "The fingerprint must be a SHA-256 in hex.")
	}
	return &submit.Idempotency{Operation: given.Operation, Key: given.Key, Fingerprint: [32]byte(fingerprint)}, nil
}

// submitResult is the result of one item.
func submitResult[Req any](ctx context.Context, item *hop.Item[Req], answer *submits.Answer) hop.Result[hop.SubmitResponse] {
	switch {
	case answer.RetryUnbatched:
		return hop.Result[hop.SubmitResponse]{Status: http.StatusConflict, RetryUnbatched: true}
	case answer.Err != nil:
		return answers.Result[Req, hop.SubmitResponse](ctx, item, nil, answer.Err)
	case answer.Problem != nil:
		return hop.Result[hop.SubmitResponse]{Status: answer.Problem.Status, Problem: answer.Problem}
	case answer.Saved != nil:
		return hop.Result[hop.SubmitResponse]{Status: answer.Saved.Status, Replayed: answer.Replayed, Value: &answer.Saved.Body}
	}
	response, err := renderSubmit(&answer.Answer)
	if err != nil {
		return answers.Result[Req, hop.SubmitResponse](ctx, item, nil, err)
	}
	return hop.Result[hop.SubmitResponse]{Status: response.Status, Value: &response.Body}
}

// renderSubmit makes the public response to a submit that was not refused as a whole.
func renderSubmit(a *submit.Answer) (submit.Response, error) {
	if a.Workflow != nil {
		body, err := answers.JSON(a.Workflow)
		return submit.Response{Status: http.StatusAccepted, Body: body}, err
	}
	if a.Batch {
		body, err := answers.JSON(batchResponse(a))
		return submit.Response{Status: http.StatusOK, Body: body}, err
	}
	job := &a.Jobs[0]
	response := api.SubmitResponse{JobSummary: job.Row.Summary(), Warnings: a.Warnings, Deduplicated: job.Deduplicated && !job.Replaced, Replaced: job.Replaced}
	if response.Warnings == nil {
		response.Warnings = []string{}
	}
	body, err := submittedText(&response)
	return submit.Response{Status: acceptedStatus(job), Body: body}, err
}

func batchResponse(a *submit.Answer) api.BatchResponse {
	response := api.BatchResponse{Results: make([]api.BatchResult, len(a.Jobs))}
	for i := range a.Jobs {
		job := &a.Jobs[i]
		if job.Refused != nil {
			response.Results[i] = api.BatchResult{Index: i, Status: job.Refused.Status, Problem: job.Refused}
			response.Rejected++
			continue
		}
		response.Results[i] = api.BatchResult{
			Index: i, Status: acceptedStatus(job),
			Job: &api.BatchJob{ID: job.Row.ID.String(), State: job.Row.State, RunAt: &api.Time{Time: job.Row.RunAt}, Replaced: job.Replaced},
		}
		response.Accepted++
	}
	return response
}

// acceptedStatus is 202 for a stored job, 200 for one that a live job stands for.
func acceptedStatus(job *submit.JobResult) int {
	if job.Deduplicated && !job.Replaced {
		return http.StatusOK
	}
	return http.StatusAccepted
}
