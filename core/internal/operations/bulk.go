package operations

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// CreateBulk begins an action on all jobs that match a filter, in the background. With `dry_run` they are only counted. A principal that is
// bound to a user reaches that user's jobs only.
//
//	@Success     202 {object} hop.Results[api.Bulk] "The action has started."
//	@Success     200 {object} hop.Results[api.Matched] "With `dry_run`."
//	@x-problems  ["forbidden", "rate_limited"]
//	@x-example-cancel {"action": "cancel", "filter": {"queue": "default", "state": ["queued"]}}
//	@x-example-dry-run {"action": "set_priority", "filter": {"key": "ada"}, "to": {"priority": 9}, "dry_run": true}
func (o *Operations) CreateBulk(ctx context.Context, owner tenant.ID, item hop.Item[api.BulkRequest]) (json.RawMessage, error) {
	request, user := &item.Request, item.Principal.User
	if fields := request.Validate(); len(fields) > 0 {
		return nil, problem.Invalid(fields...)
	}
	if named := request.Filter.User; user != "" && named != nil && *named != user {
		return nil, problem.New(problem.Forbidden, "The key is bound to a user, and the filter names another user.")
	}
	if request.DryRun {
		matched, err := o.Store.DeadLetters.CountBulk(ctx, owner, user, request)
		if err != nil {
			return nil, err
		}
		return json.Marshal(matched)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	made, err := o.Store.DeadLetters.CreateBulk(ctx, owner, user, id, request)
	if err != nil {
		return nil, err
	}
	o.Engine.Publisher.Redrives.Kick()
	return json.Marshal(made)
}

// GetBulk reads the progress of a bulk action.
//
//	@x-problems  ["not_found"]
//	@x-example-bulk {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0003"}
func (o *Operations) GetBulk(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (api.Bulk, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.Bulk{}, err
	}
	return o.Store.DeadLetters.GetBulk(ctx, owner, item.Principal.User, id)
}

// ListBulk lists bulk actions, newest first.
func (o *Operations) ListBulk(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.Bulk], error) {
	of := pages.ListingOf(hop.ListBulk.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return pages.Listed(o.Pages, of, pages.NewestID, func(b api.Bulk) string { return b.ID }, func(before uuid.UUID, limit int) ([]api.Bulk, error) {
		return o.Store.DeadLetters.ListBulk(ctx, owner, item.Principal.User, before, limit)
	})
}

// CancelBulk stops a bulk action where it is. After the answer no core does more of it. A repeat changes nothing.
//
//	@x-problems  ["not_found"]
//	@x-example-bulk {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0003"}
func (o *Operations) CancelBulk(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (api.Bulk, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.Bulk{}, err
	}
	return o.Store.DeadLetters.CancelBulk(ctx, owner, item.Principal.User, id)
}
