package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
)

// ListRedrives answers GET /v1/redrives with a page of the redrives and discards by
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
func (h *Handlers) ListRedrives(ctx context.Context, c *Call, _ None) (Response[api.Page[api.Redrive]], error) {
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return Response[api.Page[api.Redrive]]{}, err
	}
	return send[api.HopPageRequest, api.Page[api.Redrive]](ctx, h, c, coreclient.Read(api.HopRedriveList), page)
}

// GetRedrive answers GET /v1/redrives/{id} with the progress of a redrive or a
// discard by filter.
//
//	@Summary     Read a redrive
//	@Description How far a redrive, or a discard, by filter is. `waiting` says why it does not go on for now, `error` why it failed.
//	@ID          getRedrive
//	@Tags        Dead letters
//	@Param       id path string true "The redrive's id." Format(uuid)
//	@Success     200 {object} api.Redrive "The redrive as it is now."
//	@x-access    "read"
//	@Router      /v1/redrives/{id} [get]
func (h *Handlers) GetRedrive(ctx context.Context, c *Call, _ None) (Response[api.Redrive], error) {
	id, err := c.id()
	if err != nil {
		return Response[api.Redrive]{}, err
	}
	return send[api.HopRedriveRequest, api.Redrive](ctx, h, c, coreclient.Read(api.HopRedriveGet), api.HopRedriveRequest{ID: id})
}

// CancelRedrive answers POST /v1/redrives/{id}/cancel: after the answer it changes no
// more jobs; those already changed stay so. One that has ended is not changed, and a
// repeat changes nothing.
//
//	@Summary     Cancel a redrive
//	@Description After the answer nothing more is done; what was done stays done. One that has ended stays as it ended, and a repeat changes nothing.
//	@ID          cancelRedrive
//	@Tags        Dead letters
//	@Param       id path string true "The redrive's id." Format(uuid)
//	@Success     200 {object} api.Redrive "The redrive as it ended."
//	@x-access    "manage"
//	@Router      /v1/redrives/{id}/cancel [post]
func (h *Handlers) CancelRedrive(ctx context.Context, c *Call, _ None) (Response[api.Redrive], error) {
	id, err := c.id()
	if err != nil {
		return Response[api.Redrive]{}, err
	}
	return send[api.HopRedriveRequest, api.Redrive](ctx, h, c, coreclient.Write(api.HopRedriveCancel), api.HopRedriveRequest{ID: id})
}
