package administration

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/principals"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ListCaps lists the caps of a tenant with what is used of them, and those of `user` where it is named. `database` is the
// tenant's part of the time of this core's connections.
func (a *Administration) ListCaps(ctx context.Context, owner tenant.ID, item hop.Item[hop.CapsRequest]) (hop.CapsResponse, error) {
	user := item.Request.User
	if bound := item.Principal.User; bound != "" {
		user = bound
	}
	used, err := a.Engine.Cached.CapUse(ctx, owner, user)
	return hop.CapsResponse{Caps: used, Database: a.Store.Used(principals.Payer(item.Principal))}, err
}

// limitsChanged puts changed limits in force at once: here by reading them, in other cores
// and in gateways by a hint. Those that miss the hint find the change when they next poll.
func (a *Administration) limitsChanged(ctx context.Context, changed hop.LimitsChanged) {
	if err := a.Engine.Publisher.Refresh(ctx); err != nil {
		a.Logger.WarnContext(ctx, "changed limits are not in force yet", "error", err)
	}
	a.Hints.Settings()
	a.Hints.LimitsChanged(changed)
}
