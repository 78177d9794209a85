package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/api"
)

// whoami answers GET /v1/whoami: what the caller's key is. It asks nobody: the
// key has been looked up to get here.
//
//	@Summary     What your key is
//	@Description The key's tenant, user, scopes and plan. Costs nothing.
//	@ID          whoami
//	@Tags        Self
//	@Success     200 {object} api.Whoami "The key."
//	@x-access    "key"
//	@Router      /v1/whoami [get]
func (s *Server) whoami(_ context.Context, c *call, _ none) (reply[api.Whoami], error) {
	who := c.principal()
	answer := api.Whoami{Scopes: append([]string{}, who.Scopes...), KeyID: who.KeyID}
	if who.Tenant != "" {
		answer.Tenant = &who.Tenant
	}
	if who.User != "" {
		answer.User = &who.User
	}
	if plan := c.caller.Key.Plan; plan != nil {
		answer.Plan = &plan.Name
	}
	return reply[api.Whoami]{value: answer}, nil
}
