package operations

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// byFilter begins a redrive or a discard of all dead letters that match, or counts them.
func (o *Operations) byFilter(ctx context.Context, owner tenant.ID, item hop.Item[api.DeadLetterRequest], action string) (json.RawMessage, error) {
	filter, user := item.Request.Filter.Filter(), item.Principal.User
	if item.Request.DryRun {
		matched, err := o.Store.DeadLetters.Matching(ctx, owner, user, filter)
		if err != nil {
			return nil, err
		}
		if canary := item.Request.Canary; canary != nil {
			matched.Sample = new(min(matched.Matched, int64(canary.Count)))
		}
		return json.Marshal(matched)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	made, err := o.Store.DeadLetters.CreateRedrive(ctx, owner, user, deadletter.NewRedrive{
		ID: id, Action: action, Filter: filter, Rate: item.Request.RatePerSecond, Canary: item.Request.Canary,
	})
	if err != nil {
		return nil, err
	}
	o.Engine.Publisher.Redrives.Kick()
	return json.Marshal(made)
}

// GetRedrive reads the progress of a redrive, or a discard, by filter.
//
//	@x-problems  ["not_found"]
//	@x-example-redrive {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0003"}
func (o *Operations) GetRedrive(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (api.Redrive, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.Redrive{}, err
	}
	return o.Store.DeadLetters.GetRedrive(ctx, owner, item.Principal.User, id)
}

// ListRedrives lists redrives, newest first.
func (o *Operations) ListRedrives(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.Redrive], error) {
	of := pages.ListingOf(hop.ListRedrives.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return pages.Listed(o.Pages, of, pages.NewestID, func(r api.Redrive) string { return r.ID }, func(before uuid.UUID, limit int) ([]api.Redrive, error) {
		return o.Store.DeadLetters.ListRedrives(ctx, owner, item.Principal.User, before, limit)
	})
}

// CancelRedrive stops a redrive where it is. After the answer no core does more of it. A repeat changes
// nothing.
//
//	@x-problems  ["not_found"]
//	@x-example-redrive {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0003"}
func (o *Operations) CancelRedrive(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (api.Redrive, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.Redrive{}, err
	}
	return o.Store.DeadLetters.CancelRedrive(ctx, owner, item.Principal.User, id)
}
