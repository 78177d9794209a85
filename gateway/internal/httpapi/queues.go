package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func (s *Server) queueRoutes() []endpoint {
	change := func(method, verb string, takes bodyRule) route {
		return route{method: method, path: "/v1/queues/{name}" + verb, access: forTenant(api.ScopeManage), body: takes}
	}
	return []endpoint{
		handle(s, route{method: "GET", path: "/v1/queues", access: forTenant(api.ScopeRead), query: pageParams()}, s.listQueues),
		handle(s, route{method: "GET", path: "/v1/queues/{name}", access: forTenant(api.ScopeRead)}, s.getQueue),
		handle(s, change("PUT", "", body(api.MaxBody)), s.putQueue),
		handle(s, change("POST", "/pause", optionalBody(api.MaxBody)), s.pauseQueue),
		handle(s, change("POST", "/resume", optionalBody(api.MaxBody)), s.resumeQueue),
	}
}

// listQueues answers GET /v1/queues with a page of the tenant's queues, by name.
func (s *Server) listQueues(ctx context.Context, c *call, _ none) (reply[api.Page[api.Queue]], error) {
	page, err := readPage(c.query)
	if err != nil {
		return reply[api.Page[api.Queue]]{}, err
	}
	return send[api.HopPageRequest, api.Page[api.Queue]](ctx, s, c, coreclient.Read(api.HopQueues), page)
}

// getQueue answers GET /v1/queues/{name} with the queue: settings, depths, who
// serves it.
func (s *Server) getQueue(ctx context.Context, c *call, _ none) (reply[api.Queue], error) {
	name, err := c.queueName()
	if err != nil {
		return reply[api.Queue]{}, err
	}
	return send[api.HopQueueRequest, api.Queue](ctx, s, c, coreclient.Read(api.HopQueueGet), api.HopQueueRequest{Name: name})
}

// putQueue answers PUT /v1/queues/{name}: makes the queue, or replaces all of its
// settings; what is absent is the default again. Whether it is paused stays. A
// repeat changes nothing.
func (s *Server) putQueue(ctx context.Context, c *call, r api.QueueRequest) (reply[api.Queue], error) {
	name, err := c.queueName()
	if err != nil {
		return reply[api.Queue]{}, err
	}
	if fields := r.Validate(); len(fields) > 0 {
		return reply[api.Queue]{}, problem.Invalid(fields...)
	}
	return send[api.HopQueuePutRequest, api.Queue](ctx, s, c, coreclient.Write(api.HopQueuePut),
		api.HopQueuePutRequest{Name: name, QueueRequest: r})
}

// pauseQueue answers POST /v1/queues/{name}/pause: nothing more is claimed from
// the queue; what runs goes on, and jobs are still taken in. A repeat changes
// nothing.
func (s *Server) pauseQueue(ctx context.Context, c *call, _ none) (reply[api.Queue], error) {
	return s.setPaused(ctx, c, true)
}

// resumeQueue answers POST /v1/queues/{name}/resume: the queue is claimed from
// again. A repeat changes nothing.
func (s *Server) resumeQueue(ctx context.Context, c *call, _ none) (reply[api.Queue], error) {
	return s.setPaused(ctx, c, false)
}

func (s *Server) setPaused(ctx context.Context, c *call, paused bool) (reply[api.Queue], error) {
	name, err := c.queueName()
	if err != nil {
		return reply[api.Queue]{}, err
	}
	return send[api.HopQueuePauseRequest, api.Queue](ctx, s, c, coreclient.Write(api.HopQueuePause),
		api.HopQueuePauseRequest{Name: name, Paused: paused})
}
