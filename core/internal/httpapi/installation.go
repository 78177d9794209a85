package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/clock"
)

// installation reads how the stores are.
//
//	@Summary     Read the state of the installation
//	@Description PostgreSQL as its statistics views show it, statements of cores that have run for more than a second, and the redrives by filter that go on. Three statements, whatever the backlog. `checks` has each cell's state where there are several; the gateway adds its own.
//	@ID          installation
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[any] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Installation] "An answer for each item."
//	@x-access    "operator"
//	@x-example-none {}
//	@Router      /internal/v1/installation [post]
func (s *Server) installation(ctx context.Context, _ api.Item[struct{}]) (api.Installation, error) {
	found := api.Installation{At: api.At(clock.Now()), Checks: map[string]string{}}
	var err error
	if found.Postgres, found.Statements, err = s.Store.ServerState(ctx); err != nil {
		return api.Installation{}, err
	}
	const most = 50
	found.Redrives, err = s.Store.RunningRedrives(ctx, most)
	return found, err
}
