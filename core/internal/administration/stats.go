package administration

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/ledger"
	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ReadStats reads what a tenant's jobs did, by minute, hour or day.
//
//	@x-example-queue {"queue": "default", "step": "minute"}
func (a *Administration) ReadStats(ctx context.Context, owner tenant.ID, item hop.Item[hop.StatsRequest]) (api.Stats, error) {
	return a.Store.Stats.JobStats(ctx, owner, item.Request)
}

// ReadTenantStats reads the attempts of the tenants with the most, and of the others together, by minute,
// hour or day. Where there are several cells: of those that answer.
//
//	@x-example-hour {"step": "minute"}
func (a *Administration) ReadTenantStats(ctx context.Context, item hop.Item[hop.StatsRequest]) (api.TenantStats, error) {
	return a.Store.Stats.TenantStats(ctx, item.Request)
}

// ReadLimitStats reads what was used of a tenant's limits, by minute, hour or day, and who was refused.
//
//	@x-example-queue {"queue": "default", "step": "minute"}
func (a *Administration) ReadLimitStats(ctx context.Context, owner tenant.ID, item hop.Item[hop.StatsRequest]) (api.LimitStats, error) {
	return a.Store.Stats.LimitStats(ctx, owner, item.Request)
}

// RecordLimitUses records what a gateway has admitted and refused of a tenant's requests since its last
// report. It is for the limit stats.
//
//	@x-example-tenant {"uses": [{"limit": "tenant-requests", "used": 480, "allowed": 60000}]}
func (a *Administration) RecordLimitUses(_ context.Context, owner tenant.ID, item hop.Item[hop.LimitUsesRequest]) (struct{}, error) {
	a.Engine.Stats.RecordUses(owner, item.Request.Uses)
	return struct{}{}, nil
}

// ReadUsage reads exact counts of a tenant's jobs, by day, type or user.
//
//	@x-example-types {"from": "2026-11-01", "to": "2026-11-30", "by": "type", "page_size": 50}
func (a *Administration) ReadUsage(ctx context.Context, owner tenant.ID, item hop.Item[hop.UsageRequest]) (api.Usage, error) {
	request := item.Request
	filter := hop.UsageRequest{From: request.From, To: request.To, By: request.By}
	var made api.Usage
	of := pages.ListingOf(hop.GetUsage.Path, item.Principal, filter, request.PageSize, request.PageToken)
	items, err := pages.Paged(a.Pages, of, nil, func(cursor string, size int) (api.Page[api.UsageItem], error) {
		var err error
		if made, err = a.Store.Ledger.Usage(ctx, owner, request, cursor, size+1); err != nil || made.By == api.ByDay {
			return api.Page[api.UsageItem]{Items: made.Items}, err
		}
		return pages.Cut(made.Items, size, ledger.Place), nil
	})
	made.Items, made.NextPageToken = items.Items, items.NextPageToken
	return made, err
}
