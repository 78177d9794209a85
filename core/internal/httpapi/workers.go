package httpapi

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// claims serves claims, all items at once since each may wait. What was leased
// for an answer that nobody took goes back.
func (s *Server) claims(c *gin.Context) {
	items, ok := items[api.ClaimRequest](s, c)
	if !ok {
		return
	}
	ctx, cancel := withTimeout(c.Request, api.MaxWait)
	defer cancel()
	traced := s.tracing(ctx, api.HopClaim)
	taken := make([][]claim.Job, len(items))
	results := make([]api.Result[api.ClaimResponse], len(items))
	var group sync.WaitGroup
	for i := range items {
		group.Go(func() {
			ctx, span := itemSpan(traced, &items[i])
			defer func() { endSpan(span, &results[i]) }()
			defer guard(ctx, &items[i], &results[i])
			response := api.ClaimResponse{Jobs: []api.ClaimedJob{}}
			var err error
			taken[i], err = s.claim(ctx, items[i])
			for _, claimed := range taken[i] {
				response.Jobs = append(response.Jobs, claimed.Wire())
			}
			results[i] = result(ctx, &items[i], &response, err)
		})
	}
	group.Wait()
	err := c.Request.Context().Err()
	if err == nil {
		err = s.answer(c, api.Results[api.ClaimResponse]{Results: results})
	}
	if err != nil {
		for i := range taken {
			s.Dispatcher.GiveBack(ctx, taken[i])
		}
	}
}

func (s *Server) claim(ctx context.Context, item api.Item[api.ClaimRequest]) ([]claim.Job, error) {
	owner, err := ofWorker(item.Principal)
	if err != nil {
		return nil, err
	}
	request := &item.Request
	if fields := request.Validate(); len(fields) > 0 {
		return nil, problem.Invalid(fields...)
	}
	call := dispatch.ClaimCall{Owner: owner, WorkerID: request.WorkerID, Queues: request.Queues, Tags: request.Tags, Max: 1}
	if request.Max != nil {
		call.Max = *request.Max
	}
	if request.WaitMS != nil && !s.Draining() {
		call.Wait = time.Duration(*request.WaitMS) * time.Millisecond
	}
	return s.Dispatcher.Claim(ctx, call)
}

func (s *Server) register(ctx context.Context, item api.Item[api.WorkerRequest]) (api.Worker, error) {
	owner, err := ofWorker(item.Principal)
	if err != nil {
		return api.Worker{}, err
	}
	if fields := item.Request.Validate(); len(fields) > 0 {
		return api.Worker{}, problem.Invalid(fields...)
	}
	return s.Dispatcher.Register(ctx, owner, item.Request)
}

func (s *Server) heartbeat(ctx context.Context, item api.Item[api.HopHeartbeatRequest]) (api.HeartbeatResponse, error) {
	owner, err := ofWorker(item.Principal)
	if err != nil {
		return api.HeartbeatResponse{}, err
	}
	request := &item.Request
	// The worker first: a dead one must register before its leases count again.
	status, err := s.Dispatcher.BeatWorker(ctx, owner, request.WorkerID)
	if err != nil {
		return api.HeartbeatResponse{}, err
	}
	response := api.HeartbeatResponse{Status: status, Leases: make([]api.LeaseStatus, len(request.Leases))}
	var leases []job.Lease
	var places []int
	for i, lease := range request.Leases {
		response.Leases[i] = api.LeaseStatus{JobID: lease.JobID, Status: api.LeaseLost}
		parsed, err := parseLease(owner, lease.JobID, lease.LeaseToken)
		if err != nil {
			continue // what is nobody's lease is lost
		}
		leases, places = append(leases, parsed), append(places, i)
	}
	statuses, err := s.Dispatcher.Heartbeat(ctx, leases)
	if err != nil {
		return api.HeartbeatResponse{}, err
	}
	for i, place := range places {
		response.Leases[place] = statuses[i]
	}
	return response, nil
}

func parseLease(owner tenant.ID, id, token string) (job.Lease, error) {
	parsed, err := jobID(id)
	if err != nil {
		return job.Lease{}, err
	}
	return queue.ParseLease(owner, parsed, token)
}

func (s *Server) outcomes(ctx context.Context, item api.Item[api.OutcomesRequest]) (api.OutcomesResponse, error) {
	owner, err := ofWorker(item.Principal)
	if err != nil {
		return api.OutcomesResponse{}, err
	}
	sent := item.Request.Outcomes
	if len(sent) == 0 || len(sent) > api.MaxOutcomes {
		return api.OutcomesResponse{}, problem.Invalid(problem.FieldError{Field: "outcomes", Message: "must have 1 to 1000 entries"})
	}
	response := api.OutcomesResponse{Results: make([]api.OutcomeResult, len(sent))}
	var endings []queue.Ending
	var places []int
	for i := range sent {
		if fields := sent[i].Validate(""); len(fields) > 0 {
			response.Results[i] = outcomeResult(ctx, i, nil, problem.Invalid(fields...))
			continue
		}
		lease, err := parseLease(owner, sent[i].JobID, sent[i].LeaseToken)
		if err != nil {
			response.Results[i] = outcomeResult(ctx, i, nil, err)
			continue
		}
		endings, places = append(endings, ending(lease, &sent[i])), append(places, i)
	}
	for i, ended := range s.Dispatcher.End(ctx, endings) {
		response.Results[places[i]] = outcomeResult(ctx, places[i], ended.Outcome, ended.Err)
	}
	return response, nil
}

func outcomeResult(ctx context.Context, index int, outcome *api.Outcome, err error) api.OutcomeResult {
	if err != nil {
		p := asProblem(ctx, err)
		return api.OutcomeResult{Index: index, Status: p.Status, Problem: p}
	}
	return api.OutcomeResult{Index: index, Status: http.StatusOK, Outcome: outcome}
}

func ending(lease job.Lease, sent *api.OutcomeRequest) queue.Ending {
	made := queue.Ending{
		Lease: lease, Kind: sent.Kind, Result: sent.Result, Error: sent.Error.Clean(), Permanent: sent.Permanent,
		Random: rand.Float64(), //nolint:gosec // spreads retries, guards nothing
	}
	if string(sent.Result) == "null" {
		made.Result = nil // null means absent, and the two are one outcome
	}
	if sent.RetryAfterMS != nil {
		after := time.Duration(*sent.RetryAfterMS) * time.Millisecond
		made.RetryAfter = &after
	}
	if sent.DelayMS != nil {
		made.Delay = time.Duration(*sent.DelayMS) * time.Millisecond
	}
	return made
}
