package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ReportOutcomes ends attempts. Up to 1000 for each item, each with a status of its own: 409 `lease_lost`,
// 409 `outcome_conflict`, 404 `not_found` or 422 `schema_mismatch` among them. All items share commits.
//
//	@Success     200 {object} hop.Results[api.OutcomesResponse] "An answer for each item."
//	@x-example-complete {"outcomes": [{"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "kind": "complete", "lease_token": "LEASE_TOKEN", "result": {"ok": true}}]}
func (o *Operations) ReportOutcomes(ctx context.Context, owner tenant.ID, item hop.Item[api.OutcomesRequest]) (api.OutcomesResponse, error) {
	sent := item.Request.Outcomes
	if len(sent) == 0 || len(sent) > api.MaxOutcomes {
		return api.OutcomesResponse{}, problem.Invalid(problem.FieldError{Field: "outcomes", Message: "must have 1 to 1000 entries"})
	}
	toCheck, err := o.resultsToCheck(ctx, owner, sent)
	if err != nil {
		return api.OutcomesResponse{}, err
	}
	checked := map[int]bool{}
	for _, results := range toCheck {
		for _, one := range results {
			checked[one.place] = true
		}
	}
	response := api.OutcomesResponse{Results: make([]api.OutcomeResult, len(sent))}
	// What is not checked does not wait for what is: their tenants may differ.
	o.end(ctx, owner, item.Principal.User, sent, response.Results, func(place int) (skip bool, err error) { return checked[place], nil })
	if len(toCheck) > 0 {
		refused := o.checkResults(ctx, toCheck)
		o.end(ctx, owner, item.Principal.User, sent, response.Results, func(place int) (skip bool, err error) { return !checked[place], refused[place] })
	}
	return response, nil
}

// chainsAtOnce is how many outcomes of a request that submit jobs have their transaction at the same time: a tenant's chains wait for
// its locks, and must not take the connections of others meanwhile.
const chainsAtOnce = 4

// end ends attempts, but for those that judge skips or refuses, and fills in their results. user is whose jobs they may signal, empty
// for all of the tenant.
func (o *Operations) end(ctx context.Context, owner tenant.ID, user string, sent []api.OutcomeRequest, results []api.OutcomeResult, judge func(place int) (skip bool, err error)) {
	var endings []jobs.Ending
	var places []int
	var chained errgroup.Group
	chained.SetLimit(chainsAtOnce)
	defer func() { _ = chained.Wait() }()
	for i := range sent {
		skip, err := judge(i)
		if skip {
			continue
		}
		// Validated by the gateway too: the statement relies on the kind, and on delays that
		// a Go duration can hold.
		if fields := sent[i].Validate(""); len(fields) > 0 {
			err = problem.Invalid(fields...)
		}
		lease, wrong := parseLease(owner, sent[i].JobID, sent[i].LeaseToken)
		if err == nil {
			err = wrong
		}
		if err != nil {
			results[i] = outcomeResult(ctx, i, nil, err)
			continue
		}
		if len(sent[i].Submit)+len(sent[i].Signal) > 0 {
			chained.Go(func() error {
				results[i] = o.chain(ctx, lease, user, i, &sent[i])
				return nil
			})
			continue
		}
		endings, places = append(endings, ending(lease, &sent[i])), append(places, i)
	}
	for i, ended := range o.Engine.Claims.End(ctx, endings) {
		results[places[i]] = outcomeResult(ctx, places[i], ended.Outcome, ended.Err)
	}
}

// chain ends an attempt together with the jobs that it submits, and the signals that it sends.
func (o *Operations) chain(ctx context.Context, lease job.Lease, user string, place int, sent *api.OutcomeRequest) api.OutcomeResult {
	made := ending(lease, sent)
	if len(sent.Submit) > 0 {
		made.Submit = store.JSON(sent.Submit) // without the defaults of types, which may be others in a repeat
	}
	signals := make([]jobs.ChainSignal, len(sent.Signal))
	for i, one := range sent.Signal {
		id, err := jobID(one.JobID)
		if err != nil {
			return outcomeResult(ctx, place, nil, err)
		}
		signals[i] = jobs.ChainSignal{Job: id, Name: one.Name, Data: orNull(one.Data)}
	}
	if len(signals) > 0 {
		made.Signal = store.JSON(sent.Signal)
	}
	call := submits.Call{Tenant: lease.Tenant, Jobs: sent.Submit, IDs: make([]uuid.UUID, len(sent.Submit))}
	for i := range call.IDs {
		id, err := uuid.NewV7()
		if err != nil {
			return outcomeResult(ctx, place, nil, err)
		}
		call.IDs[i] = id
	}
	var err error
	if call.Refused, err = o.checkTypes(ctx, lease.Tenant, sent.Submit); err != nil {
		return outcomeResult(ctx, place, nil, err)
	}
	ended := o.Engine.Submits.Chain(ctx, made, call, signals, user)
	if refused, ok := errors.AsType[*jobs.SignalError](ended.Err); ok {
		p := *answers.Problem(ctx, refused.Err)
		if p.Status < http.StatusInternalServerError {
			p.Errors = []problem.FieldError{{Field: fmt.Sprintf("signal[%d]", refused.Index), Message: strings.TrimSuffix(p.Detail, ".")}}
		}
		ended.Err = &p
	}
	return outcomeResult(ctx, place, ended.Outcome, ended.Err)
}

// orNull is a value as it is stored: null means absent, and the two are one outcome.
func orNull(value json.RawMessage) []byte {
	if string(value) == "null" {
		return nil
	}
	return value
}

func outcomeResult(ctx context.Context, index int, outcome *api.Outcome, err error) api.OutcomeResult {
	if err != nil {
		p := answers.Problem(ctx, err)
		return api.OutcomeResult{Index: index, Status: p.Status, Problem: p}
	}
	return api.OutcomeResult{Index: index, Status: http.StatusOK, Outcome: outcome}
}

func ending(lease job.Lease, sent *api.OutcomeRequest) jobs.Ending {
	made := jobs.Ending{
		Lease: lease, Kind: sent.Kind, Result: orNull(sent.Result), Error: sent.Error.Clean(), Permanent: sent.Permanent,
		Used: sent.Used, Throttle: sent.Throttle,
		Random: rand.Float64(), //nolint:gosec // spreads retries, guards nothing
	}
	if sent.RetryAfterMS != nil {
		after := time.Duration(*sent.RetryAfterMS) * time.Millisecond
		made.RetryAfter = &after
	}
	if sent.Kind == api.KindWait {
		made.Wait = &jobs.Wait{Names: sent.For, All: sent.Mode == api.WaitAll}
		made.Delay, made.Checkpoint = time.Duration(*sent.TimeoutMS)*time.Millisecond, sent.Checkpoint
	}
	if sent.DelayMS != nil {
		made.Delay = time.Duration(*sent.DelayMS) * time.Millisecond
	}
	return made
}
