package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ListRedrives lists redrives.
//
//	@Description Redrives and discards by filter, newest first: those that are running, and those that ended in the last 30 days. A key that is bound to a user sees those started by that user's keys.
//	@Success     200 {object} api.Page[api.Redrive] "A page of redrives."
func (h *Handlers) ListRedrives(ctx context.Context, c *Call, _ None) (Response[api.Page[api.Redrive]], error) {
	return paged(ctx, h, c, hop.ListRedrives)
}

// GetRedrive reads a redrive.
//
//	@Description The progress of a redrive or a discard by filter. `waiting` says why it is waiting, `error` why it failed. `canary`, of a redrive with one, is the sample and what became of it.
//	@Success     200 {object} api.Redrive "The redrive as it is now."
func (h *Handlers) GetRedrive(ctx context.Context, c *Call, _ None) (Response[api.Redrive], error) {
	return byID(ctx, h, c, hop.GetRedrive)
}

// CancelRedrive cancels a redrive.
//
//	@Description After the answer, no more jobs are processed; those already processed are not reverted. A redrive that has ended does not change, and a repeat changes nothing.
//	@Success     200 {object} api.Redrive "The redrive in its final state."
func (h *Handlers) CancelRedrive(ctx context.Context, c *Call, _ None) (Response[api.Redrive], error) {
	return byID(ctx, h, c, hop.CancelRedrive)
}
