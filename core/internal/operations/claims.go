package operations

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/principals"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ClaimJobs claims jobs. Items wait side by side, each up to its `wait_ms`. Jobs that were leased for a
// response that is not sent are released.
//
//	@x-problems  ["rate_limited"]
//	@x-example-one {"worker_id": "worker-1", "queues": ["default"]}
func (o *Operations) ClaimJobs(ctx context.Context, items []hop.Item[api.ClaimRequest]) (results []hop.Result[api.ClaimResponse], unsent func()) {
	leased := make([][]claim.Job, len(items))
	results = make([]hop.Result[api.ClaimResponse], len(items))
	var group sync.WaitGroup
	for i := range items {
		group.Go(func() {
			ctx, span := answers.Span(ctx, &items[i])
			defer func() { answers.EndSpan(span, &results[i]) }()
			defer answers.Guard(ctx, &items[i], &results[i])
			claimed := api.ClaimResponse{Jobs: []api.ClaimedJob{}}
			var err error
			leased[i], err = o.claim(ctx, items[i])
			if err == nil {
				claimed.Jobs, err = o.claimedJobs(ctx, leased[i])
			}
			if err != nil { // what is leased would not arrive whole
				o.Engine.Claims.GiveBack(ctx, leased[i])
				leased[i], claimed.Jobs = nil, []api.ClaimedJob{}
			}
			results[i] = answers.Result(ctx, &items[i], &claimed, err)
		})
	}
	group.Wait()
	return results, func() {
		for i := range leased {
			o.Engine.Claims.GiveBack(ctx, leased[i])
		}
	}
}

// claimedJobs are jobs as their worker gets them, with their workflows, parents and signals.
func (o *Operations) claimedJobs(ctx context.Context, leased []claim.Job) ([]api.ClaimedJob, error) {
	claimed := make([]api.ClaimedJob, len(leased))
	var linked []uuid.UUID
	for i := range leased {
		claimed[i] = leased[i].Wire()
		if leased[i].Linked {
			linked = append(linked, leased[i].ID)
		}
	}
	links, err := o.Store.JobReads.Links(ctx, linked)
	if err != nil {
		return nil, err
	}
	for i := range leased {
		if of := links[leased[i].ID]; of != nil {
			claimed[i].Workflow, claimed[i].WokenBy = of.Workflow, of.WokenBy
			claimed[i].Parents, claimed[i].Signals = append(claimed[i].Parents, of.Parents...), append(claimed[i].Signals, of.Signals...)
		}
	}
	return claimed, nil
}

func (o *Operations) claim(ctx context.Context, item hop.Item[api.ClaimRequest]) ([]claim.Job, error) {
	owner, err := principals.OfWorker(item.Principal)
	if err != nil {
		return nil, err
	}
	request := &item.Request
	// Validated by the gateway too: a claim writes its worker_id and queues to workers.
	if fields := request.Validate(); len(fields) > 0 {
		return nil, problem.Invalid(fields...)
	}
	call := claims.Call{Owner: owner, WorkerID: request.WorkerID, Queues: request.Queues, Types: request.Types, Tags: request.Tags, Max: 1}
	if request.Max != nil {
		call.Max = *request.Max
	}
	if request.WaitMS != nil && !o.Draining() {
		call.Wait = time.Duration(*request.WaitMS) * time.Millisecond
	}
	return o.Engine.Claims.Claim(ctx, call)
}
