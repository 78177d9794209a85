package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
)

// listRedrives answers GET /v1/redrives with a page of the redrives and discards by
// filter, newest first; those that have ended are kept as long as dead letters.
//
//	@Summary     List redrives
//	@Description Redrives and discards by filter, newest first: those under way, and for 30 days those that have ended. A key that is bound to a user sees what that user's keys have asked for.
//	@ID          listRedrives
//	@Tags        Dead letters
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.Redrive] "A page of redrives."
//	@x-access    "read"
//	@Router      /v1/redrives [get]
func (s *Server) listRedrives(ctx context.Context, c *call, _ none) (reply[api.Page[api.Redrive]], error) {
	page, err := request.ReadPage(c.query)
	if err != nil {
		return reply[api.Page[api.Redrive]]{}, err
	}
	return send[api.HopPageRequest, api.Page[api.Redrive]](ctx, s, c, coreclient.Read(api.HopRedriveList), page)
}

// getRedrive answers GET /v1/redrives/{id} with how far a redrive or a discard by
// filter got.
//
//	@Summary     Read a redrive
//	@Description How far a redrive, or a discard, by filter is. `waiting` says why it does not go on for now, `error` why it failed.
//	@ID          getRedrive
//	@Tags        Dead letters
//	@Param       id path string true "The redrive's id." Format(uuid)
//	@Success     200 {object} api.Redrive "The redrive as it is now."
//	@x-access    "read"
//	@Router      /v1/redrives/{id} [get]
func (s *Server) getRedrive(ctx context.Context, c *call, _ none) (reply[api.Redrive], error) {
	id, err := c.id()
	if err != nil {
		return reply[api.Redrive]{}, err
	}
	return send[api.HopRedriveRequest, api.Redrive](ctx, s, c, coreclient.Read(api.HopRedriveGet), api.HopRedriveRequest{ID: id})
}

// cancelRedrive answers POST /v1/redrives/{id}/cancel: once it is answered nothing more
// is done; what was done stays done. One that has ended stays as it ended, and a repeat
// changes nothing.
//
//	@Summary     Cancel a redrive
//	@Description After the answer nothing more is done; what was done stays done. One that has ended stays as it ended, and a repeat changes nothing.
//	@ID          cancelRedrive
//	@Tags        Dead letters
//	@Param       id path string true "The redrive's id." Format(uuid)
//	@Success     200 {object} api.Redrive "The redrive as it ended."
//	@x-access    "manage"
//	@Router      /v1/redrives/{id}/cancel [post]
func (s *Server) cancelRedrive(ctx context.Context, c *call, _ none) (reply[api.Redrive], error) {
	id, err := c.id()
	if err != nil {
		return reply[api.Redrive]{}, err
	}
	return send[api.HopRedriveRequest, api.Redrive](ctx, s, c, coreclient.Write(api.HopRedriveCancel), api.HopRedriveRequest{ID: id})
}
