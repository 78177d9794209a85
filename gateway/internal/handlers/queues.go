package handlers

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// ListQueues answers GET /v1/queues with a page of the tenant's queues, by name.
//
//	@Summary     List queues
//	@Description The tenant's queues by name, with settings, depths and who serves them. A queue is there from its first job or its settings on. Depths stop counting at 10,000; `depth_capped` names those that did.
//	@ID          listQueues
//	@Tags        Queues
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.Queue] "A page of queues."
//	@x-access    "read unbound"
//	@Router      /v1/queues [get]
func (h *Handlers) ListQueues(ctx context.Context, c *Call, _ None) (Response[api.Page[api.Queue]], error) {
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return Response[api.Page[api.Queue]]{}, err
	}
	return send[api.HopPageRequest, api.Page[api.Queue]](ctx, h, c, coreclient.Read(api.HopQueues), page)
}

// GetQueue answers GET /v1/queues/{name} with the queue: settings, depths, its
// workers.
//
//	@Summary     Read a queue
//	@Description Settings in force, depths, how long the oldest job has been ready, how many workers serve it, and tags that jobs wait for and no worker has; of one in push mode, how the breaker of its destination stands.
//	@ID          getQueue
//	@Tags        Queues
//	@Param       name path string true "The queue's name."
//	@Success     200 {object} api.Queue "The queue."
//	@x-access    "read unbound"
//	@Router      /v1/queues/{name} [get]
func (h *Handlers) GetQueue(ctx context.Context, c *Call, _ None) (Response[api.Queue], error) {
	name, err := c.name()
	if err != nil {
		return Response[api.Queue]{}, err
	}
	return send[api.HopQueueRequest, api.Queue](ctx, h, c, coreclient.Read(api.HopQueueGet), api.HopQueueRequest{Name: name})
}

// PutQueue answers PUT /v1/queues/{name}: makes the queue, or replaces all of its
// settings; what is absent is the default again. Whether it is paused stays. A
// repeat changes nothing.
//
//	@Summary     Set a queue
//	@Description Makes the queue, or replaces all of its settings: what is absent is the default again. Whether it is paused stays. Jobs take attempts and backoff from it when they are submitted, the visibility timeout when they are claimed.
//	@Description
//	@Description **Push.** A queue in mode `push` needs no worker: its jobs are posted to `push.url`, signed as Standard Webhooks are. A breaker for each destination opens when too many calls fail; while it is open the jobs wait, and spend no attempt. `max_running` is how many calls there are at once, `rate_per_second` how many start in a second.
//	@Description
//	@Description **The secret** that signs is in the answer to the PUT that made or replaced it, as `settings.push.secret`, and never again: everywhere else it is null. A PUT without `push.secret` keeps the one that is there. Where the answer was lost, ask for another with `push.new_secret`. Where the operator has not opened push mode, it is 400 `invalid_request`.
//	@ID          putQueue
//	@Tags        Queues
//	@Param       name     path string           true "The queue's name."
//	@Param       settings body api.QueueRequest true "The settings."
//	@Success     200 {object} api.Queue "The queue as it is now."
//	@x-access    "manage unbound"
//	@x-problems  ["too_many_lanes"]
//	@x-example-basic    {"visibility_timeout_ms": 60000, "max_attempts": 5, "retry": {"base_ms": 1000, "cap_ms": 60000, "jitter": 0.2}, "max_running": 20}
//	@x-example-push     {"mode": "push", "push": {"url": "https://example.com/jobs", "timeout_ms": 10000, "breaker": {"failure_ratio": 0.3}}, "max_running": 10, "rate_per_second": 50, "retry": {"base_ms": 2000, "curve": "linear"}}
//	@x-example-new-push-secret {"mode": "push", "push": {"url": "https://example.com/jobs", "new_secret": true}}
//	@x-example-reset    {}
//	@Router      /v1/queues/{name} [put]
func (h *Handlers) PutQueue(ctx context.Context, c *Call, r api.QueueRequest) (Response[api.Queue], error) {
	name, err := c.name()
	if err != nil {
		return Response[api.Queue]{}, err
	}
	if fields := r.Validate(); len(fields) > 0 {
		return Response[api.Queue]{}, problem.Invalid(fields...)
	}
	return send[api.HopQueuePutRequest, api.Queue](ctx, h, c, coreclient.Write(api.HopQueuePut),
		api.HopQueuePutRequest{Name: name, QueueRequest: r})
}

// PauseQueue answers POST /v1/queues/{name}/pause: nothing more is claimed from
// the queue; what runs goes on, and jobs are still taken in. A repeat changes
// nothing.
//
//	@Summary     Pause a queue
//	@Description Nothing more is claimed from it. What runs goes on, and jobs are still taken in. A repeat changes nothing.
//	@ID          pauseQueue
//	@Tags        Queues
//	@Param       name path string true "The queue's name."
//	@Success     200 {object} api.Queue "The queue as it is now."
//	@x-access    "manage unbound"
//	@x-problems  ["too_many_lanes"]
//	@Router      /v1/queues/{name}/pause [post]
func (h *Handlers) PauseQueue(ctx context.Context, c *Call, _ None) (Response[api.Queue], error) {
	return h.setPaused(ctx, c, true)
}

// ResumeQueue answers POST /v1/queues/{name}/resume: the queue is claimed from
// again. A repeat changes nothing.
//
//	@Summary     Resume a queue
//	@Description It is claimed from again. A repeat changes nothing.
//	@ID          resumeQueue
//	@Tags        Queues
//	@Param       name path string true "The queue's name."
//	@Success     200 {object} api.Queue "The queue as it is now."
//	@x-access    "manage unbound"
//	@x-problems  ["too_many_lanes"]
//	@Router      /v1/queues/{name}/resume [post]
func (h *Handlers) ResumeQueue(ctx context.Context, c *Call, _ None) (Response[api.Queue], error) {
	return h.setPaused(ctx, c, false)
}

func (h *Handlers) setPaused(ctx context.Context, c *Call, paused bool) (Response[api.Queue], error) {
	name, err := c.name()
	if err != nil {
		return Response[api.Queue]{}, err
	}
	return send[api.HopQueuePauseRequest, api.Queue](ctx, h, c, coreclient.Write(api.HopQueuePause),
		api.HopQueuePauseRequest{Name: name, Paused: paused})
}

// DeleteQueue answers DELETE /v1/queues/{name}: 204, and 204 again for a repeat; 409
// queue_not_empty where it has live jobs or dead letters.
//
//	@Summary     Delete an empty queue
//	@Description Forgets the queue's settings, in push mode its target and secret too. A queue with live jobs or dead letters is 409, and `detail` says how many. Jobs that have ended stay. A repeat, and a queue that never was, is 204.
//	@Description
//	@Description A job that is submitted to the queue later, by a schedule too, makes it again, with defaults. So does one that is submitted at the same moment: it is not lost, and may still have an attempt limit or a backoff of the old settings.
//	@ID          deleteQueue
//	@Tags        Queues
//	@Param       name path string true "The queue's name."
//	@Success     204 "There is no such queue any more."
//	@x-access    "manage unbound"
//	@x-problems  ["queue_not_empty"]
//	@Router      /v1/queues/{name} [delete]
func (h *Handlers) DeleteQueue(ctx context.Context, c *Call, _ None) (Response[None], error) {
	name, err := c.name()
	if err != nil {
		return Response[None]{}, err
	}
	_, err = send[api.HopQueueRequest, None](ctx, h, c, coreclient.Write(api.HopQueueDelete), api.HopQueueRequest{Name: name})
	return Response[None]{Status: http.StatusNoContent}, err
}
