package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
)

func (s *Server) redriveRoutes() []endpoint {
	return []endpoint{
		handle(s, route{method: "GET", path: "/v1/redrives", access: scoped(api.ScopeRead), query: pageParams()}, s.listRedrives),
		handle(s, route{method: "GET", path: "/v1/redrives/{id}", access: scoped(api.ScopeRead)}, s.getRedrive),
		handle(s, route{
			method: "POST", path: "/v1/redrives/{id}/cancel", access: scoped(api.ScopeManage), body: optionalBody(api.MaxBody),
		}, s.cancelRedrive),
	}
}

// listRedrives answers GET /v1/redrives with a page of the redrives and discards by
// filter, newest first; those that have ended are kept as long as dead letters.
func (s *Server) listRedrives(ctx context.Context, c *call, _ none) (reply[api.Page[api.Redrive]], error) {
	page, err := readPage(c.query)
	if err != nil {
		return reply[api.Page[api.Redrive]]{}, err
	}
	return send[api.HopPageRequest, api.Page[api.Redrive]](ctx, s, c, coreclient.Read(api.HopRedriveList), page)
}

// getRedrive answers GET /v1/redrives/{id} with how far a redrive or a discard by
// filter got.
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
func (s *Server) cancelRedrive(ctx context.Context, c *call, _ none) (reply[api.Redrive], error) {
	id, err := c.id()
	if err != nil {
		return reply[api.Redrive]{}, err
	}
	return send[api.HopRedriveRequest, api.Redrive](ctx, s, c, coreclient.Write(api.HopRedriveCancel), api.HopRedriveRequest{ID: id})
}
