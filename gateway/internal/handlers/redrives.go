package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/hop"
)

// ListRedrives answers GET /v1/redrives with a page of the redrives and discards by
// filter, newest first; those that have ended are kept as long as dead letters.
//
//	@Summary     List redrives
//	@Description Redrives and discards by filter, newest first: those that are running, and those that ended in the last 30 days. A key that is bound to a user sees those started by that user's keys.
//	@ID          listRedrives
//	@Tags        Dead letters
//	@Param       page_size  query int    false "Maximum number of items."
//	@Param       page_token query string false "`next_page_token` of the previous page."
//	@Success     200 {object} api.Page[api.Redrive] "A page of redrives."
//	@x-access    "read"
//	@Router      /v1/redrives [get]
func (h *Handlers) ListRedrives(ctx context.Context, c *Call, _ None) (Response[api.Page[api.Redrive]], error) {
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return Response[api.Page[api.Redrive]]{}, err
	}
	return send(ctx, h, c, hop.ListRedrives, page)
}

// GetRedrive answers GET /v1/redrives/{id} with the progress of a redrive or a
// discard by filter.
//
//	@Summary     Read a redrive
//	@Description The progress of a redrive or a discard by filter. `waiting` says why it is waiting, `error` why it failed. `canary`, of a redrive with one, is the sample and what became of it.
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
	return send(ctx, h, c, hop.GetRedrive, hop.ID{ID: id})
}

// CancelRedrive answers POST /v1/redrives/{id}/cancel: after the answer it changes no
// more jobs; those already changed stay so. One that has ended is not changed, and a
// repeat changes nothing.
//
//	@Summary     Cancel a redrive
//	@Description After the answer, no more jobs are processed; those already processed are not reverted. A redrive that has ended does not change, and a repeat changes nothing.
//	@ID          cancelRedrive
//	@Tags        Dead letters
//	@Param       id path string true "The redrive's id." Format(uuid)
//	@Success     200 {object} api.Redrive "The redrive in its final state."
//	@x-access    "manage"
//	@Router      /v1/redrives/{id}/cancel [post]
func (h *Handlers) CancelRedrive(ctx context.Context, c *Call, _ None) (Response[api.Redrive], error) {
	id, err := c.id()
	if err != nil {
		return Response[api.Redrive]{}, err
	}
	return send(ctx, h, c, hop.CancelRedrive, hop.ID{ID: id})
}
