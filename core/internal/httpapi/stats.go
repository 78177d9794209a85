package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/ledger"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// readStats reads what a tenant's jobs did.
//
//	@Summary     Read job stats
//	@Description What the tenant's jobs did, by minute, hour or day.
//	@ID          stats
//	@Tags        Queues
//	@Param       envelope body api.Envelope[api.HopStatsRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Stats] "An answer for each item."
//	@x-access    "tenant"
//	@x-example-queue {"queue": "default", "step": "minute"}
//	@Router      /internal/v1/stats [post]
func (s *Server) readStats(ctx context.Context, owner tenant.ID, item api.Item[api.HopStatsRequest]) (api.Stats, error) {
	return s.Store.JobStats(ctx, owner, item.Request)
}

// readTenantStats reads the attempts of all tenants.
//
//	@Summary     Read the attempts of tenants
//	@Description The attempts of the tenants with the most and of the others together, by minute, hour or day. Of the cells that answer, where there are several.
//	@ID          tenantStats
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopStatsRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.TenantStats] "An answer for each item."
//	@x-access    "operator"
//	@x-example-hour {"step": "minute"}
//	@Router      /internal/v1/tenant-stats [post]
func (s *Server) readTenantStats(ctx context.Context, item api.Item[api.HopStatsRequest]) (api.TenantStats, error) {
	return s.Store.TenantStats(ctx, item.Request)
}

// readLimitStats reads what was used of a tenant's limits.
//
//	@Summary     Read limit stats
//	@Description What was used of the tenant's limits, by minute, hour or day, and who was refused.
//	@ID          limitStats
//	@Tags        Queues
//	@Param       envelope body api.Envelope[api.HopStatsRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.LimitStats] "An answer for each item."
//	@x-access    "tenant"
//	@x-example-queue {"queue": "default", "step": "minute"}
//	@Router      /internal/v1/limits/stats [post]
func (s *Server) readLimitStats(ctx context.Context, owner tenant.ID, item api.Item[api.HopStatsRequest]) (api.LimitStats, error) {
	return s.Store.LimitStats(ctx, owner, item.Request)
}

// recordLimitUses notes what a gateway has admitted and refused.
//
//	@Summary     Record uses of limits
//	@Description What a gateway has admitted and refused of a tenant's requests since its last report, for the limit stats.
//	@ID          limitUses
//	@Tags        Queues
//	@Param       envelope body api.Envelope[api.HopLimitUsesRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[any] "An answer for each item."
//	@x-access    "tenant"
//	@x-example-tenant {"uses": [{"limit": "tenant-requests", "used": 480, "allowed": 60000}]}
//	@Router      /internal/v1/limits/uses [post]
func (s *Server) recordLimitUses(_ context.Context, owner tenant.ID, item api.Item[api.HopLimitUsesRequest]) (struct{}, error) {
	s.Dispatcher.RecordUses(owner, item.Request.Uses)
	return struct{}{}, nil
}

// readUsage reads exact counts of a tenant's jobs.
//
//	@Summary     Read usage
//	@Description Exact counts of the tenant's jobs, by day, type or user.
//	@ID          usage
//	@Tags        Queues
//	@Param       envelope body api.Envelope[api.HopUsageRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Usage] "An answer for each item."
//	@x-access    "tenant"
//	@x-example-types {"from": "2026-11-01", "to": "2026-11-30", "by": "type", "page_size": 50}
//	@Router      /internal/v1/usage [post]
func (s *Server) readUsage(ctx context.Context, owner tenant.ID, item api.Item[api.HopUsageRequest]) (api.Usage, error) {
	request := item.Request
	filter := api.HopUsageRequest{From: request.From, To: request.To, By: request.By}
	var made api.Usage
	of := listingOf(api.HopUsage, item.Principal, filter, request.PageSize, request.PageToken)
	items, err := paged(s, of, func(cursor string, size int) (api.Page[api.UsageItem], error) {
		var err error
		if made, err = s.Store.Usage(ctx, owner, request, cursor, size+1); err != nil || made.By == api.ByDay {
			return api.Page[api.UsageItem]{Items: made.Items}, err
		}
		return page(made.Items, size, ledger.Place), nil
	})
	made.Items, made.NextPageToken = items.Items, items.NextPageToken
	return made, err
}
