package httpapi

import (
	"context"

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
