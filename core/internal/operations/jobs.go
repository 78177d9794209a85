package operations

import (
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/watch"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// GetJob reads a job, payload and result included.
//
//	@x-problems  ["not_found"]
//	@x-example-job {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) GetJob(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (api.Job, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.Job{}, err
	}
	return o.Store.JobReads.Get(ctx, owner, item.Principal.User, id)
}

// ListJobs lists jobs by a filter, newest id first. A principal that is bound to a user sees that user's
// only.
//
//	@x-example-queued {"filter": {"states": ["queued"]}, "page_size": 50}
func (o *Operations) ListJobs(ctx context.Context, owner tenant.ID, item hop.Item[hop.Filtered[api.JobFilter]]) (api.Page[api.JobSummary], error) {
	filter := item.Request.Filter
	if bound := item.Principal.User; bound != "" {
		if filter.User != "" && filter.User != bound {
			return api.Page[api.JobSummary]{}, problem.New(problem.Forbidden, "The key is bound to a user, and the filter names another user.")
		}
		filter.User = bound
	}
	of := pages.ListingOf(hop.ListJobs.Path, item.Principal, filter, item.Request.PageSize, item.Request.PageToken)
	return pages.Paged(o.Pages, of, func(job api.JobSummary) string { return job.ID }, func(cursor string, size int) (api.Page[api.JobSummary], error) {
		return o.Store.JobReads.List(ctx, owner, filter, size, cursor)
	})
}

// ListAttempts lists the executions of a job, by epoch.
//
//	@x-problems  ["not_found"]
//	@x-example-job {"for": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "page_size": 50}
func (o *Operations) ListAttempts(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageFor]) (api.Page[api.Attempt], error) {
	id, err := jobID(item.Request.For)
	if err != nil {
		return api.Page[api.Attempt]{}, err
	}
	of := pages.ListingOf(hop.ListAttempts.Path, item.Principal, id, item.Request.PageSize, item.Request.PageToken)
	key := func(a api.Attempt) string { return strconv.FormatInt(a.Epoch, 10) }
	return pages.Listed(o.Pages, of, pages.ByNumber, key, func(after int64, limit int) ([]api.Attempt, error) {
		return o.Store.JobReads.Attempts(ctx, owner, item.Principal.User, id, after, limit)
	})
}

// CancelJob cancels a job, or asks the worker that runs it to stop. `requested` says that the job runs, and
// its worker will be told.
//
//	@x-problems  ["not_found", "job_terminal"]
//	@x-example-job {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) CancelJob(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (hop.CancelResponse, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return hop.CancelResponse{}, err
	}
	summary, did, err := o.Store.Jobs.Cancel(ctx, owner, item.Principal.User, id)
	if err != nil {
		return hop.CancelResponse{}, err
	}
	o.Engine.Publisher.Publish(ctx, publish.Cancelled(owner, &summary, id, did))
	return hop.CancelResponse{Job: summary, Requested: did == jobs.CancelRequested}, nil
}

// SignalJob stores a signal of a live job, and wakes the job if that is what it waits for. Of signals of one name the first stays.
//
//	@x-problems  ["not_found", "job_terminal"]
//	@x-example-approved {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "signal": {"name": "approved", "data": {"by": "ada"}}}
func (o *Operations) SignalJob(ctx context.Context, owner tenant.ID, item hop.Item[hop.SignalJobRequest]) (api.Signal, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.Signal{}, err
	}
	sent := item.Request.Signal
	if fields := sent.Validate(); len(fields) > 0 {
		return api.Signal{}, problem.Invalid(fields...)
	}
	made, err := o.Store.Jobs.Signal(ctx, owner, item.Principal.User, id, sent.Name, orNull(sent.Data))
	if err != nil {
		return api.Signal{}, err
	}
	if made.Woken != nil {
		o.Engine.Publisher.Publish(ctx, publish.Changes{Promoted: []jobs.Ready{*made.Woken}})
	}
	return api.Signal{Name: sent.Name, At: api.At(made.At), First: made.First}, nil
}

// DeleteJob deletes an ended job, with its attempts. Jobs that a dead letter holds are cancelled.
//
//	@x-problems  ["not_found", "job_live"]
//	@x-example-job {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) DeleteJob(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (struct{}, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return struct{}{}, err
	}
	state, err := o.Store.EndedJobs.Delete(ctx, owner, item.Principal.User, id)
	if err != nil {
		return struct{}{}, err
	}
	deleted := publish.Changes{Deleted: []uuid.UUID{id}}
	if state == job.DeadLetter {
		deleted.Discarded = 1
	}
	o.Engine.Publisher.Publish(ctx, deleted)
	return struct{}{}, nil
}

// WaitForJob waits until a job changes. The answer after `wait_ms` (25 s at most) is the job as it is.
// Items wait side by side.
//
//	@x-problems  ["not_found"]
//	@x-example-ended {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "wait_ms": 100, "ended": true}
func (o *Operations) WaitForJob(ctx context.Context, owner tenant.ID, item hop.Item[hop.WaitForJobRequest]) (api.Job, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.Job{}, err
	}
	wait := min(time.Duration(item.Request.WaitMS)*time.Millisecond, api.MaxWait)
	return o.Engine.Watches.Wait(ctx, watch.Call{
		Tenant: owner, User: item.Principal.User, ID: id, Wait: max(wait, 0), Ended: item.Request.Ended, Seen: item.Request.Seen, Version: item.Request.Version,
	})
}

// ExplainJob says why a job waits, or no longer does. With `details` also the job and its first attempts.
//
//	@x-problems  ["not_found"]
//	@x-example-job {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) ExplainJob(ctx context.Context, owner tenant.ID, item hop.Item[hop.ExplainJobRequest]) (api.Explanation, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.Explanation{}, err
	}
	return o.Engine.Explainer.Explain(ctx, owner, item.Principal.User, id, item.Request.Details)
}

// jobID reads a job's id. A malformed one is not found.
func jobID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return uuid.UUID{}, store.ErrNotFound
	}
	return id, nil
}
