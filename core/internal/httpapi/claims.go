package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// claimJobs claims jobs. Items wait side by side, each up to its `wait_ms`. Jobs that were leased for a
// response that is not sent are released.
//
//	@Param       envelope body hop.Envelope[api.ClaimRequest] true "The callers' requests."
//	@Success     200 {object} hop.Results[api.ClaimResponse] "An answer for each item."
//	@x-problems  ["rate_limited"]
//	@x-example-one {"worker_id": "worker-1", "queues": ["default"]}
func (s *Server) claimJobs(ctx context.Context, body []byte) (response, error) {
	items, err := decodeItems[api.ClaimRequest](ctx, body)
	if err != nil {
		return response{}, err
	}
	leased := make([][]claim.Job, len(items))
	results := make([]hop.Result[api.ClaimResponse], len(items))
	var group sync.WaitGroup
	for i := range items {
		group.Go(func() {
			ctx, span := itemSpan(ctx, &items[i])
			defer func() { endSpan(span, &results[i]) }()
			defer guard(ctx, &items[i], &results[i])
			claimed := api.ClaimResponse{Jobs: []api.ClaimedJob{}}
			var err error
			leased[i], err = s.claim(ctx, items[i])
			if err == nil {
				claimed.Jobs, err = s.claimedJobs(ctx, leased[i])
			}
			if err != nil { // what is leased would not arrive whole
				s.Engine.Claims.GiveBack(ctx, leased[i])
				leased[i], claimed.Jobs = nil, []api.ClaimedJob{}
			}
			results[i] = result(ctx, &items[i], &claimed, err)
		})
	}
	group.Wait()
	return response{value: hop.Results[api.ClaimResponse]{Results: results}, unsent: func() {
		for i := range leased {
			s.Engine.Claims.GiveBack(ctx, leased[i])
		}
	}}, nil
}

// claimedJobs are jobs as their worker gets them, with their workflows and parents.
func (s *Server) claimedJobs(ctx context.Context, leased []claim.Job) ([]api.ClaimedJob, error) {
	claimed := make([]api.ClaimedJob, len(leased))
	linked := map[uuid.UUID]*api.JobSummary{}
	for i := range leased {
		claimed[i] = leased[i].Wire()
		if leased[i].Linked {
			linked[leased[i].ID] = &api.JobSummary{}
		}
	}
	if err := s.Store.JobReads.AddParents(ctx, "", linked); err != nil {
		return nil, err
	}
	for i := range leased {
		summary := linked[leased[i].ID]
		if summary == nil {
			continue
		}
		claimed[i].Workflow = summary.Workflow
		for _, parent := range summary.After {
			claimed[i].Parents = append(claimed[i].Parents, api.ClaimedParent{Ref: parent.Ref, JobID: parent.JobID, State: parent.State})
		}
	}
	return claimed, nil
}

func (s *Server) claim(ctx context.Context, item hop.Item[api.ClaimRequest]) ([]claim.Job, error) {
	owner, err := ofWorker(item.Principal)
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
	if request.WaitMS != nil && !s.Draining() {
		call.Wait = time.Duration(*request.WaitMS) * time.Millisecond
	}
	return s.Engine.Claims.Claim(ctx, call)
}
