package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Installation asks core how the stores are. The checks are those of who answers.
func (h *Handlers) Installation(ctx context.Context, c *Call) (Response[api.Installation], error) {
	return send(ctx, h, c, hop.GetInstallation, struct{}{})
}
