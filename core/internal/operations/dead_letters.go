package operations

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ListDeadLetters lists dead letters by a filter, newest job id first.
//
//	@x-example-exhausted {"filter": {"reason": "exhausted"}, "page_size": 50}
func (o *Operations) ListDeadLetters(ctx context.Context, owner tenant.ID, item hop.Item[hop.Filtered[api.DeadLetterFilter]]) (api.Page[api.DeadLetter], error) {
	of := pages.ListingOf(hop.ListDeadLetters.Path, item.Principal, item.Request.Filter, item.Request.PageSize, item.Request.PageToken)
	return pages.Paged(o.Pages, of, func(dead api.DeadLetter) string { return dead.Job.ID }, func(cursor string, size int) (api.Page[api.DeadLetter], error) {
		return o.Store.DeadLetters.DeadLetters(ctx, owner, item.Principal.User, item.Request.Filter, size, cursor)
	})
}

// GroupDeadLetters reads the largest groups of dead letters that match, by fingerprint and queue. At most
// the newest 100,000 are read.
//
//	@x-example-queue {"filter": {"queue": "default"}, "page_size": 50}
func (o *Operations) GroupDeadLetters(ctx context.Context, owner tenant.ID, item hop.Item[hop.Filtered[api.DeadLetterFilter]]) (api.DeadLetterGroups, error) {
	return o.Store.DeadLetters.DeadLetterGroups(ctx, owner, item.Principal.User, item.Request.Filter, pages.Size(item.Request.PageSize))
}

// RedriveJob redrives one dead letter. The job is queued again under its id, and its attempts are counted
// from 1 again.
//
//	@x-problems  ["not_found", "not_dead", "dedupe_conflict", "active_cap_reached", "too_many_lanes"]
//	@x-example-job {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) RedriveJob(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (api.JobSummary, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.JobSummary{}, err
	}
	redriven := o.Engine.Submits.Redrive(ctx, owner, item.Principal.User, []uuid.UUID{id})[0]
	if redriven.Err != nil {
		return api.JobSummary{}, redriven.Err
	}
	return *redriven.Job, nil
}

// RedriveDeadLetters redrives dead letters by ids, each with a status of its own, or by a filter in the
// background, as a redrive. With `dry_run` they are only counted.
//
//	@Success     200 {object} hop.Results[api.DeadLetterResponse] "An answer for each item."
//	@Success     default {object} hop.Results[api.Matched]
//	@Success     202 {object} hop.Results[api.Redrive] "With `filter`: the redrive has started."
//	@x-problems  ["rate_limited"]
//	@x-example-ids {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"]}
//	@x-example-filter {"filter": {"queue": "default", "reason": "permanent"}, "rate_per_second": 50}
//	@x-example-canary {"filter": {"queue": "default"}, "canary": {"count": 20, "success": 0.9, "timeout_seconds": 600}}
//	@x-example-dry-run {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"], "dry_run": true}
func (o *Operations) RedriveDeadLetters(ctx context.Context, owner tenant.ID, item hop.Item[api.DeadLetterRequest]) (json.RawMessage, error) {
	ids, err := deadLetterIDs(&item.Request)
	if err != nil {
		return nil, err
	}
	switch {
	case item.Request.Filter != nil:
		return o.byFilter(ctx, owner, item, api.ActionRedrive)
	case item.Request.DryRun:
		return o.matched(ctx, owner, item.Principal.User, ids)
	}
	return json.Marshal(redriveResponse(ctx, o.Engine.Submits.Redrive(ctx, owner, item.Principal.User, ids)))
}

func redriveResponse(ctx context.Context, all []deadletter.Redriven) api.DeadLetterResponse {
	response := api.DeadLetterResponse{Results: make([]api.BatchResult, len(all))}
	for i, redriven := range all {
		response.Results[i] = batchResult(ctx, i, redriven.Err)
		if redriven.Err == nil {
			response.Results[i].Status = http.StatusAccepted
			response.Results[i].Job = &api.BatchJob{ID: redriven.Job.ID, State: redriven.Job.State, RunAt: redriven.Job.RunAt}
		}
	}
	return response
}

// DiscardDeadLetters deletes dead letters by ids, each with a status of its own, or by a filter in the
// background, as a redrive. With `dry_run` they are only counted.
//
//	@Success     200 {object} hop.Results[api.DeadLetterResponse] "An answer for each item."
//	@Success     default {object} hop.Results[api.Matched]
//	@Success     202 {object} hop.Results[api.Redrive] "With `filter`: the redrive has started."
//	@x-problems  ["rate_limited"]
//	@x-example-ids {"ids": ["01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"]}
//	@x-example-filter {"filter": {"queue": "default", "reason": "permanent"}, "rate_per_second": 50}
func (o *Operations) DiscardDeadLetters(ctx context.Context, owner tenant.ID, item hop.Item[api.DeadLetterRequest]) (json.RawMessage, error) {
	ids, err := deadLetterIDs(&item.Request)
	if err != nil {
		return nil, err
	}
	if fields := item.Request.RefuseCanary(); len(fields) > 0 {
		return nil, problem.Invalid(fields...)
	}
	switch {
	case item.Request.Filter != nil:
		return o.byFilter(ctx, owner, item, api.ActionDiscard)
	case item.Request.DryRun:
		return o.matched(ctx, owner, item.Principal.User, ids)
	}
	gone, err := o.Store.DeadLetters.Discard(ctx, owner, item.Principal.User, ids)
	o.Engine.Publisher.Publish(ctx, publish.Changes{Deleted: slices.Collect(maps.Keys(gone)), Discarded: len(gone)})
	if err != nil {
		return nil, err
	}
	known, err := o.Store.JobReads.Existing(ctx, owner, item.Principal.User, slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return gone[id] }))
	if err != nil {
		return nil, err
	}
	response := api.DeadLetterResponse{Results: make([]api.BatchResult, len(ids))}
	seen := map[uuid.UUID]bool{} // an id that is named twice is discarded once
	for i, id := range ids {
		var why error
		switch {
		case gone[id] && !seen[id]:
		case known[id]:
			why = deadletter.ErrNotDead
		default:
			why = store.ErrNotFound
		}
		seen[id] = true
		response.Results[i] = batchResult(ctx, i, why) // a discarded job is in no state: job is null
	}
	return json.Marshal(response)
}

// deadLetterIDs reads the ids of a request; a malformed one is the nil id, which no job has.
func deadLetterIDs(request *api.DeadLetterRequest) ([]uuid.UUID, error) {
	// Validated by the gateway too: a redrive's filter and rate are stored.
	if fields := request.Validate(); len(fields) > 0 {
		return nil, problem.Invalid(fields...)
	}
	ids := make([]uuid.UUID, len(request.IDs))
	for i, text := range request.IDs {
		ids[i], _ = jobID(text)
	}
	return ids, nil
}

// matched answers a dry run by ids.
func (o *Operations) matched(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) (json.RawMessage, error) {
	found, err := o.Store.DeadLetters.Dead(ctx, owner, user, ids)
	if err != nil {
		return nil, err
	}
	return json.Marshal(api.Matched{Matched: int64(len(found))})
}

func batchResult(ctx context.Context, index int, err error) api.BatchResult {
	if err == nil {
		return api.BatchResult{Index: index, Status: http.StatusOK}
	}
	p := answers.Problem(ctx, err)
	return api.BatchResult{Index: index, Status: p.Status, Problem: p}
}
