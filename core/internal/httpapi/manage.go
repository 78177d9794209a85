package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/watch"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// ofJob reads what every call about one job has: whose it is, and its id.
func ofJob(p api.Principal, text string) (tenant.ID, uuid.UUID, error) {
	owner, err := ofTenant(p)
	if err != nil {
		return owner, uuid.UUID{}, err
	}
	id, err := jobID(text)
	return owner, id, err
}

func (s *Server) list(ctx context.Context, item api.Item[api.HopListRequest]) (api.Page[api.JobSummary], error) {
	owner, err := ofTenant(item.Principal)
	if err != nil {
		return api.Page[api.JobSummary]{}, err
	}
	filter := item.Request.Filter
	if bound := item.Principal.User; bound != "" {
		if filter.User != "" && filter.User != bound {
			return api.Page[api.JobSummary]{}, problem.New(problem.Forbidden, "The key sees one user's jobs, and the filter names another.")
		}
		filter.User = bound
	}
	return paged(s, listingOf(api.HopList, item.Principal, filter), item.Request.PageToken, func(place string) (api.Page[api.JobSummary], error) {
		return s.Store.List(ctx, owner, filter, pageSize(item.Request.PageSize), place)
	})
}

func pageSize(asked int) int {
	if asked < 1 {
		return api.DefaultPageSize
	}
	return min(asked, api.MaxPageSize)
}

func (s *Server) attempts(ctx context.Context, item api.Item[api.HopAttemptsRequest]) (api.Page[api.Attempt], error) {
	owner, id, err := ofJob(item.Principal, item.Request.JobID)
	if err != nil {
		return api.Page[api.Attempt]{}, err
	}
	return paged(s, listingOf(api.HopAttempts, item.Principal, id), item.Request.PageToken, func(place string) (api.Page[api.Attempt], error) {
		var after int64
		if place != "" {
			if after, err = strconv.ParseInt(place, 10, 64); err != nil {
				return api.Page[api.Attempt]{}, store.ErrPageToken
			}
		}
		size := pageSize(item.Request.PageSize)
		attempts, err := s.Store.Attempts(ctx, owner, item.Principal.User, id, after, size+1)
		return page(attempts, size, func(a api.Attempt) string { return strconv.FormatInt(a.Epoch, 10) }), err
	})
}

func (s *Server) cancel(ctx context.Context, item api.Item[api.HopJobRequest]) (api.HopCancelResponse, error) {
	owner, id, err := ofJob(item.Principal, item.Request.JobID)
	if err != nil {
		return api.HopCancelResponse{}, err
	}
	summary, requested, err := s.Dispatcher.Cancel(ctx, owner, item.Principal.User, id)
	return api.HopCancelResponse{Job: summary, Requested: requested}, err
}

// wait holds until a job changes. Waits of one envelope run at once.
func (s *Server) wait(ctx context.Context, item api.Item[api.HopWaitRequest]) (api.Job, error) {
	owner, id, err := ofJob(item.Principal, item.Request.JobID)
	if err != nil {
		return api.Job{}, err
	}
	wait := min(time.Duration(item.Request.WaitMS)*time.Millisecond, api.MaxWait)
	return s.Dispatcher.WaitJob(ctx, watch.Call{
		Tenant: owner, User: item.Principal.User, ID: id, Wait: max(wait, 0), Ended: item.Request.Ended, Seen: item.Request.Seen,
	})
}

func (s *Server) redrive(ctx context.Context, item api.Item[api.HopJobRequest]) (api.JobSummary, error) {
	owner, id, err := ofJob(item.Principal, item.Request.JobID)
	if err != nil {
		return api.JobSummary{}, err
	}
	redriven := s.Dispatcher.Redrive(ctx, owner, item.Principal.User, []uuid.UUID{id})[0]
	if redriven.Err != nil {
		return api.JobSummary{}, redriven.Err
	}
	return *redriven.Job, nil
}

func (s *Server) deadLetters(ctx context.Context, item api.Item[api.HopDeadLettersRequest]) (api.Page[api.DeadLetter], error) {
	owner, err := ofTenant(item.Principal)
	if err != nil {
		return api.Page[api.DeadLetter]{}, err
	}
	filter := item.Request.Filter
	return paged(s, listingOf(api.HopDeadLetters, item.Principal, filter), item.Request.PageToken, func(place string) (api.Page[api.DeadLetter], error) {
		return s.Store.DeadLetters(ctx, owner, item.Principal.User, filter, pageSize(item.Request.PageSize), place)
	})
}

// deadOf reads the ids of a request; a malformed one is the nil id, which no job has.
func deadOf(request *api.DeadLetterRequest) ([]uuid.UUID, error) {
	if fields := request.Validate(); len(fields) > 0 {
		return nil, problem.Invalid(fields...)
	}
	ids := make([]uuid.UUID, len(request.IDs))
	for i, text := range request.IDs {
		ids[i], _ = jobID(text)
	}
	return ids, nil
}

// matched answers a dry run.
func (s *Server) matched(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) (json.RawMessage, error) {
	found, err := s.Store.Dead(ctx, owner, user, ids)
	if err != nil {
		return nil, err
	}
	return json.Marshal(api.Matched{Matched: int64(len(found))})
}

func (s *Server) redriveMany(ctx context.Context, item api.Item[api.DeadLetterRequest]) (json.RawMessage, error) {
	owner, err := ofTenant(item.Principal)
	if err != nil {
		return nil, err
	}
	ids, err := deadOf(&item.Request)
	if err != nil {
		return nil, err
	}
	switch {
	case item.Request.Filter != nil:
		return s.byFilter(ctx, owner, item, api.ActionRedrive)
	case item.Request.DryRun:
		return s.matched(ctx, owner, item.Principal.User, ids)
	}
	response := api.DeadLetterResponse{Results: make([]api.BatchResult, len(ids))}
	for i, redriven := range s.Dispatcher.Redrive(ctx, owner, item.Principal.User, ids) {
		response.Results[i] = batchResult(ctx, i, redriven.Err)
		if redriven.Err == nil {
			response.Results[i].Status = http.StatusAccepted
			response.Results[i].Job = &api.BatchJob{ID: redriven.Job.ID, State: redriven.Job.State, RunAt: redriven.Job.RunAt}
		}
	}
	return json.Marshal(response)
}

func (s *Server) discardMany(ctx context.Context, item api.Item[api.DeadLetterRequest]) (json.RawMessage, error) {
	owner, err := ofTenant(item.Principal)
	if err != nil {
		return nil, err
	}
	ids, err := deadOf(&item.Request)
	if err != nil {
		return nil, err
	}
	switch {
	case item.Request.Filter != nil:
		return s.byFilter(ctx, owner, item, api.ActionDiscard)
	case item.Request.DryRun:
		return s.matched(ctx, owner, item.Principal.User, ids)
	}
	gone, err := s.Dispatcher.Discard(ctx, owner, item.Principal.User, ids)
	if err != nil {
		return nil, err
	}
	response := api.DeadLetterResponse{Results: make([]api.BatchResult, len(ids))}
	for i, id := range ids {
		var why error
		if !gone[id] {
			if _, why = s.Store.Get(ctx, owner, item.Principal.User, id); why == nil {
				why = deadletter.ErrNotDead
			}
		}
		delete(gone, id)                               // named twice, it goes once
		response.Results[i] = batchResult(ctx, i, why) // a discarded job is in no state: job is null
	}
	return json.Marshal(response)
}

func batchResult(ctx context.Context, index int, err error) api.BatchResult {
	if err == nil {
		return api.BatchResult{Index: index, Status: http.StatusOK}
	}
	p := asProblem(ctx, err)
	return api.BatchResult{Index: index, Status: p.Status, Problem: p}
}

func (s *Server) listWorkers(ctx context.Context, item api.Item[api.HopPageRequest]) (api.Page[api.Worker], error) {
	owner := tenant.Platform
	if item.Principal.Kind != api.PrincipalPlatform {
		var err error
		if owner, err = ofManager(item.Principal); err != nil {
			return api.Page[api.Worker]{}, err
		}
	}
	return paged(s, listingOf(api.HopWorkers, item.Principal, nil), item.Request.PageToken, func(place string) (api.Page[api.Worker], error) {
		size := pageSize(item.Request.PageSize)
		workers, err := s.Store.ListWorkers(ctx, owner, place, size+1)
		return page(workers, size, func(w api.Worker) string { return w.WorkerID }), err
	})
}

func (s *Server) listQueues(ctx context.Context, item api.Item[api.HopPageRequest]) (api.Page[api.Queue], error) {
	owner, err := ofManager(item.Principal)
	if err != nil {
		return api.Page[api.Queue]{}, err
	}
	return paged(s, listingOf(api.HopQueues, item.Principal, nil), item.Request.PageToken, func(place string) (api.Page[api.Queue], error) {
		size := pageSize(item.Request.PageSize)
		queues, err := s.Dispatcher.Queues(ctx, owner, place, size+1)
		return page(queues, size, func(q api.Queue) string { return q.Name }), err
	})
}

func (s *Server) getQueue(ctx context.Context, item api.Item[api.HopQueueRequest]) (api.Queue, error) {
	owner, err := ofManager(item.Principal)
	if err != nil {
		return api.Queue{}, err
	}
	return s.Dispatcher.Queue(ctx, owner, item.Request.Name)
}

// ofManager gives the tenant whose queues, workers and audit log a principal may see and
// change: they are the tenant's, and a key that is bound to a user sees that user only.
func ofManager(p api.Principal) (tenant.ID, error) {
	if p.User != "" {
		return tenant.ID{}, problem.New(problem.Forbidden, "A key that is bound to a user sees and changes what is that user's; queues, workers and the audit log are the tenant's.")
	}
	return ofTenant(p)
}

func (s *Server) putQueue(ctx context.Context, item api.Item[api.HopQueuePutRequest]) (api.Queue, error) {
	owner, err := ofManager(item.Principal)
	if err != nil {
		return api.Queue{}, err
	}
	request := &item.Request
	if fields := request.Validate(); len(fields) > 0 {
		return api.Queue{}, problem.Invalid(fields...)
	}
	if !api.ValidName(request.Name) {
		return api.Queue{}, store.ErrNotFound
	}
	limit, err := s.Store.VisibilityLimit(ctx, owner)
	if err != nil {
		return api.Queue{}, err
	}
	if asked := request.VisibilityTimeoutMS; asked != nil && limit != nil && *asked > *limit {
		return api.Queue{}, problem.Invalid(problem.FieldError{
			Field: "visibility_timeout_ms", Message: "must be at most " + strconv.FormatInt(*limit, 10) + ", by the tenant's plan",
		})
	}
	return s.storeQueue(ctx, owner, request)
}

func (s *Server) pauseQueue(ctx context.Context, item api.Item[api.HopQueuePauseRequest]) (api.Queue, error) {
	owner, err := ofManager(item.Principal)
	if err != nil {
		return api.Queue{}, err
	}
	if !api.ValidName(item.Request.Name) {
		return api.Queue{}, store.ErrNotFound
	}
	// A queue springs into being by a job or by its settings, not by being paused.
	if _, err := s.Dispatcher.Queue(ctx, owner, item.Request.Name); errors.Is(err, store.ErrNotFound) {
		return api.Queue{}, err
	}
	return s.Dispatcher.PauseQueue(ctx, owner, item.Request.Name, item.Request.Paused)
}
