package handlers

import (
	"context"
	"fmt"
	"slices"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// CompleteJob completes a job.
//
//	@Description Completes the job; `result` is stored with it. `used` is what the attempt has used of budgets; without it, what it had reserved. A repeat with the same token and body gets the same answer.
//	@Description
//	@Description `submit` are jobs that follow: up to 100, as `POST /v1/jobs` takes them. They are stored in the same transaction, so each is there exactly once if the job is completed, and not at all otherwise. `submitted` has their ids. If one is refused, so is the outcome, with the problem of that job and its field, such as `submit[2]`; the lease stays. The key also needs the scope `submit`, and is charged for the jobs. A platform key submits to the tenant of the job.
//	@Description
//	@Description 409 `lease_lost`: the lease expired, and another worker may run the job again. 409 `outcome_conflict`: another outcome was already reported for this lease. 422 `schema_mismatch`: the result does not fit the type of the job; the lease stays, so complete it with another result, or fail it.
//	@Tags        Workers
//	@Param       outcome body api.CompleteRequest true "The lease token and the result."
//	@Success     200 {object} api.Outcome "The job is completed."
//	@x-problems  ["lease_lost", "outcome_conflict", "schema_mismatch", "cost_above_burst", "cost_above_budget", "dedupe_conflict", "active_cap_reached", "queue_full", "would_wait", "too_many_lanes", "job_terminal"]
//	@x-example-result {"lease_token": "LEASE_TOKEN", "result": {"sha256": "2cf24dba5fb0a30e"}}
//	@x-example-used {"lease_token": "LEASE_TOKEN", "result": {"answer": "42"}, "used": {"openai": 1312}}
//	@x-example-submit {"lease_token": "LEASE_TOKEN", "submit": [{"type": "mail.send", "payload": {"to": "ada@example.com"}}, {"type": "invoice.archive", "delay_ms": 60000}]}
func (h *Handlers) CompleteJob(c *call.Call, r api.CompleteRequest) (api.OutcomeRequest, admission.Cost, error) {
	return priceOutcome(c, api.OutcomeRequest{Kind: api.KindComplete, LeaseToken: r.LeaseToken, Result: r.Result, Used: r.Used, Submit: r.Submit, Signal: r.Signal})
}

// FailJob reports a failed attempt.
//
//	@Description The job is retried after its backoff, or after `retry_after_ms`. If no attempts are left, or with `permanent`, it becomes a dead letter with this error. The message is truncated to 4 KiB, the stack to 16 KiB.
//	@Tags        Workers
//	@Param       outcome body api.FailRequest true "The lease token and the error."
//	@Success     200 {object} api.Outcome "The job's new state."
//	@x-problems  ["lease_lost", "outcome_conflict"]
//	@x-example-again     {"lease_token": "LEASE_TOKEN", "error": {"type": "timeout", "message": "the mail server did not answer", "stack": ""}, "retry_after_ms": 30000}
//	@x-example-throttled {"lease_token": "LEASE_TOKEN", "error": {"type": "rate_limited", "message": "429 from the provider"}, "throttle": {"openai": {"retry_after_ms": 20000}}}
//	@x-example-permanent {"lease_token": "LEASE_TOKEN", "error": {"type": "bad_address", "message": "no such mailbox"}, "permanent": true}
func (h *Handlers) FailJob(c *call.Call, r api.FailRequest) (api.OutcomeRequest, admission.Cost, error) {
	return priceOutcome(c, api.OutcomeRequest{
		Kind: api.KindFail, LeaseToken: r.LeaseToken, Error: r.Error, RetryAfterMS: r.RetryAfterMS, Permanent: r.Permanent,
		Used: r.Used, Throttle: r.Throttle,
	})
}

// SnoozeJob snoozes a job.
//
//	@Description Reschedules the job after `delay_ms`. It does not use an attempt. `error`, if given, is shown as the job's last error.
//	@Tags        Workers
//	@Param       outcome body api.SnoozeRequest true "The lease token and the delay."
//	@Success     200 {object} api.Outcome "The job is scheduled."
//	@x-problems  ["lease_lost", "outcome_conflict"]
//	@x-example-minute {"lease_token": "LEASE_TOKEN", "delay_ms": 60000}
func (h *Handlers) SnoozeJob(c *call.Call, r api.SnoozeRequest) (api.OutcomeRequest, admission.Cost, error) {
	return priceOutcome(c, api.OutcomeRequest{Kind: api.KindSnooze, LeaseToken: r.LeaseToken, DelayMS: r.DelayMS, Error: r.Error, Used: r.Used, Throttle: r.Throttle})
}

// WaitJob has a job wait for signals.
//
//	@Description The job waits for signals (`POST /v1/jobs/{id}/signals`): for any of the names in `for`, or with `mode` `all` for all of them. It is then `waiting`, without lease and without using an attempt, for `timeout_ms` at most (366 days). A signal that is there already ends the wait at once, so none is missed. When it is claimed again, `signals` has the signals, `woken_by` is `signal` or `timeout`, and `checkpoint` is the one given here. With `for` empty it sleeps.
//	@Tags        Workers
//	@Param       outcome body api.WaitRequest true "The lease token, the signals and the time."
//	@Success     200 {object} api.Outcome "The job waits, or is queued."
//	@x-problems  ["lease_lost", "outcome_conflict", "schema_mismatch", "cost_above_burst", "cost_above_budget", "dedupe_conflict", "active_cap_reached", "queue_full", "would_wait", "too_many_lanes", "job_terminal"]
//	@x-example-approval {"lease_token": "LEASE_TOKEN", "for": ["approved", "rejected"], "timeout_ms": 604800000, "checkpoint": {"draft": 7}}
//	@x-example-sleep    {"lease_token": "LEASE_TOKEN", "timeout_ms": 86400000}
func (h *Handlers) WaitJob(c *call.Call, r api.WaitRequest) (api.OutcomeRequest, admission.Cost, error) {
	return priceOutcome(c, api.OutcomeRequest{
		Kind: api.KindWait, LeaseToken: r.LeaseToken, For: r.For, Mode: r.Mode, TimeoutMS: r.TimeoutMS, Checkpoint: r.Checkpoint, Used: r.Used, Submit: r.Submit, Signal: r.Signal,
	})
}

// ReleaseJob releases a job.
//
//	@Description Queues the job again at once. It does not use an attempt. For workers that shut down or have claimed too many jobs.
//	@Tags        Workers
//	@Param       outcome body api.ReleaseRequest true "The lease token."
//	@Success     200 {object} api.Outcome "The job is queued."
//	@x-problems  ["lease_lost", "outcome_conflict"]
//	@x-example-release {"lease_token": "LEASE_TOKEN"}
func (h *Handlers) ReleaseJob(c *call.Call, r api.ReleaseRequest) (api.OutcomeRequest, admission.Cost, error) {
	return priceOutcome(c, api.OutcomeRequest{Kind: api.KindRelease, LeaseToken: r.LeaseToken, Used: r.Used})
}

// priceOutcome validates one outcome, of the job that the path names.
func priceOutcome(c *call.Call, outcome api.OutcomeRequest) (api.OutcomeRequest, admission.Cost, error) {
	outcome.JobID = c.Params["id"]
	if refused := admitOutcome(&outcome, c.Principal(), ""); refused != nil {
		return outcome, admission.Reports(1), refused
	}
	return outcome, costOfOutcomes([]api.OutcomeRequest{outcome}), nil
}

// costOfOutcomes are the reports; with jobs that follow it is the submit of all of them.
func costOfOutcomes(outcomes []api.OutcomeRequest) admission.Cost {
	cost := admission.Reports(len(outcomes))
	for i := range outcomes {
		jobs := outcomes[i].Submit
		for j := range jobs {
			cost.Add(&jobs[j])
		}
	}
	return cost
}

// Report reports one validated outcome, as a list of one.
func (h *Handlers) Report(ctx context.Context, c *call.Call, outcome api.OutcomeRequest) (call.Response[api.Outcome], error) {
	var nothing call.Response[api.Outcome]
	results, err := h.passOutcomes(ctx, c, []api.OutcomeRequest{outcome})
	switch {
	case err != nil:
		return nothing, err
	case results[0].Problem != nil:
		return nothing, call.UniformNotFound(results[0].Problem)
	case results[0].Outcome == nil:
		return nothing, fmt.Errorf("%w: an outcome without a value", cellclient.ErrContract)
	}
	return call.Response[api.Outcome]{Status: results[0].Status, Value: *results[0].Outcome}, nil
}

// ReportOutcomes reports up to 1000 outcomes.
//
//	@Description Outcomes of any kind. `results` has a status for each, in the order sent: 200 with an outcome, or a problem such as 409 `lease_lost`. Each kind takes the same fields as its own route.
//	@Param       outcomes body api.OutcomesRequest true "The outcomes."
//	@Success     200 {object} api.OutcomesResponse "A result for each outcome."
//	@x-example-complete {"outcomes": [{"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "kind": "complete", "lease_token": "LEASE_TOKEN", "result": {"ok": true}}]}
//	@x-example-fail     {"outcomes": [{"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "kind": "fail", "lease_token": "LEASE_TOKEN", "error": {"type": "timeout", "message": "no answer"}}]}
func (h *Handlers) ReportOutcomes(_ *call.Call, r api.OutcomesRequest) (api.OutcomesRequest, admission.Cost, error) {
	if fields := r.Validate(); len(fields) > 0 {
		return r, admission.Cost{}, problem.Invalid(fields...)
	}
	return r, costOfOutcomes(r.Outcomes), nil
}

// ReportAll reports outcomes, each by itself valid or refused.
func (h *Handlers) ReportAll(ctx context.Context, c *call.Call, r api.OutcomesRequest) (call.Response[api.OutcomesResponse], error) {
	results := make([]api.OutcomeResult, len(r.Outcomes))
	var good []api.OutcomeRequest
	var places []int // the index in results of each valid one
	for i := range r.Outcomes {
		if p := admitOutcome(&r.Outcomes[i], c.Principal(), fmt.Sprintf("outcomes[%d].", i)); p != nil {
			results[i] = api.OutcomeResult{Index: i, Status: p.Status, Problem: c.Sign(p)}
			continue
		}
		good, places = append(good, r.Outcomes[i]), append(places, i)
	}
	if len(good) > 0 {
		answers, err := h.passOutcomes(ctx, c, good)
		if err != nil {
			return call.Response[api.OutcomesResponse]{}, err
		}
		for i, place := range places {
			results[place] = answers[i]
			results[place].Index = place
			if p := answers[i].Problem; p != nil {
				results[place].Problem = c.Sign(call.UniformNotFound(p))
			}
		}
	}
	return call.Response[api.OutcomesResponse]{Value: api.OutcomesResponse{Results: results}}, nil
}

// passOutcomes gives one result for each outcome, in order. A tenant's outcomes share
// requests to core with each other, not with other tenants': core answers a request
// when its last outcome is done.
func (h *Handlers) passOutcomes(ctx context.Context, c *call.Call, outcomes []api.OutcomeRequest) ([]api.OutcomeResult, error) {
	answer, err := call.SendAs(ctx, h.core, c, hop.ReportOutcomes, cellclient.How{Shared: true, Group: c.Principal().Tenant}, api.OutcomesRequest{Outcomes: outcomes})
	if err != nil {
		return nil, err
	}
	if got := len(answer.Value.Results); got != len(outcomes) {
		return nil, call.ErrMissingItems(got, len(outcomes))
	}
	return answer.Value.Results, nil
}

// admitOutcome validates one outcome, nil if it is valid, and converts its job's id
// to the canonical form. A malformed id is answered as an unknown job.
func admitOutcome(outcome *api.OutcomeRequest, who hop.Principal, prefix string) *problem.Problem {
	if len(outcome.Result) > api.MaxResult {
		return fieldTooLarge(prefix + "result")
	}
	if fields := outcome.Validate(prefix); len(fields) > 0 {
		return problem.Invalid(fields...)
	}
	if len(outcome.Submit)+len(outcome.Signal) > 0 && who.Kind != hop.PrincipalPlatform && !slices.Contains(who.Scopes, api.ScopeSubmit) {
		return problem.New(problem.Forbidden, "An outcome that submits or signals jobs needs a key with the scope "+api.ScopeSubmit+" too.")
	}
	for i := range outcome.Submit {
		if refused := admitFields(&outcome.Submit[i], nil, who, fmt.Sprintf("%ssubmit[%d].", prefix, i)); refused != nil {
			return refused
		}
	}
	id, ok := request.UUID(outcome.JobID)
	if !ok {
		return call.ErrNoSuchID
	}
	outcome.JobID = id
	return nil
}
