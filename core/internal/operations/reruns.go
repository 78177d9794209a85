package operations

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/principals"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// RerunJobs submits new jobs like ended ones, under ids that the gateway drew (UUID v7). `job` says in what
// a job differs. The value is the public answer, ready to be sent.
//
//	@Success     200 {object} hop.Results[api.SubmitResponse] "An answer for each item."
//	@x-problems  ["not_found", "job_live", "dedupe_conflict", "active_cap_reached", "queue_full", "would_wait", "too_many_lanes", "cost_above_budget", "idempotency_in_flight", "idempotency_mismatch"]
//	@x-example-same {"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0004"}
func (o *Operations) RerunJobs(ctx context.Context, items []hop.Item[hop.RerunJobRequest]) []hop.Result[hop.SubmitResponse] {
	results := make([]hop.Result[hop.SubmitResponse], len(items))
	for i := range items {
		ctx, span := answers.Span(ctx, &items[i])
		answer := o.rerunJob(ctx, &items[i])
		results[i] = submitResult(ctx, &items[i], &answer)
		answers.EndSpan(span, &results[i])
	}
	return results
}

func (o *Operations) rerunJob(ctx context.Context, item *hop.Item[hop.RerunJobRequest]) submits.Answer {
	call, err := rerunCall(item)
	if err != nil {
		return submits.Answer{Err: err}
	}
	if err := o.mayRename(ctx, item.Principal, &call); err != nil {
		return submits.Answer{Err: err}
	}
	refused, err := o.checkRerun(ctx, &call)
	if err != nil {
		return submits.Answer{Err: err}
	}
	if refused != nil {
		call.Refused = refused
		return o.Engine.Submits.Submit(ctx, []submits.Call{call})[0]
	}
	answer := o.Engine.Submits.Rerun(ctx, call)
	if call.Idempotency != nil && (errors.Is(answer.Err, store.ErrNotFound) || errors.Is(answer.Err, jobs.ErrLive)) {
		// a repeat gets the first answer, also after the job was forgotten, or redriven
		call.Refused = []*problem.Problem{answers.Problem(ctx, answer.Err)}
		return o.Engine.Submits.Submit(ctx, []submits.Call{call})[0]
	}
	return answer
}

// mayRename refuses a rerun under another type that copies a payload which the caller does not see all of: the other type hides
// something else, or nothing.
func (o *Operations) mayRename(ctx context.Context, p hop.Principal, call *submits.Call) error {
	differs := &call.Jobs[0]
	if differs.Type == "" || !copies(differs) {
		return nil
	}
	view, err := o.Store.Masks.View(ctx, p)
	if err != nil || view == nil {
		return err
	}
	of, err := o.Store.JobTypes.TypeOf(ctx, call.Tenant, *call.RerunOf)
	if err == nil && of != differs.Type && view.Hides(of) {
		err = problem.New(problem.Forbidden, "The job's type "+of+" has sensitive fields: a rerun under another type needs the scope payload, or a payload of its own.")
	}
	return err
}

// copies says that a rerun has the old job's payload.
func copies(differs *api.SubmitRequest) bool {
	return len(differs.Payload) == 0 || string(differs.Payload) == "null"
}

// checkRerun checks a payload that takes the place of the old job's, against the type that the new job has. refused is nil where it fits.
func (o *Operations) checkRerun(ctx context.Context, call *submits.Call) (refused []*problem.Problem, err error) {
	differs := call.Jobs[0]
	if copies(&differs) {
		return nil, nil
	}
	if differs.Type == "" {
		if differs.Type, err = o.Store.JobTypes.TypeOf(ctx, call.Tenant, *call.RerunOf); err != nil || differs.Type == "" {
			return nil, err // of a job that is gone
		}
	}
	found, err := o.checkTypes(ctx, call.Tenant, []api.SubmitRequest{differs})
	if err != nil || found[0] == nil {
		return nil, err
	}
	return found, nil
}

// rerunCall reads an item. What the gateway has validated is validated again, see submitCall.
func rerunCall(item *hop.Item[hop.RerunJobRequest]) (submits.Call, error) {
	request := &item.Request
	owner, err := principals.OfTenant(item.Principal)
	if err != nil {
		return submits.Call{}, err
	}
	of, err := jobID(request.JobID)
	if err != nil {
		return submits.Call{}, err
	}
	id, err := uuid.Parse(request.ID)
	if err != nil {
		return submits.Call{}, problem.New(problem.InvalidRequest, "id must be a UUID.")
	}
	now := time.Now()
	if err := checkID(id, now); err != nil {
		return submits.Call{}, err
	}
	if fields := request.Job.Validate(now); len(fields) > 0 {
		return submits.Call{}, problem.Invalid(fields...)
	}
	call := submits.Call{
		Tenant: owner, User: item.Principal.User, IDs: []uuid.UUID{id}, Jobs: []api.SubmitRequest{request.Job.SubmitRequest}, RerunOf: &of, Render: renderSubmit,
		CorrelationID: item.CorrelationID, Traceparent: item.Traceparent,
	}
	if request.Idempotency != nil {
		call.Idempotency, err = idempotencyOf(request.Idempotency)
	}
	return call, err
}
