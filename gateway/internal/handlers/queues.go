package handlers

import (
	"context"
	"fmt"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ListQueues lists queues.
//
//	@Description The tenant's queues by name, with settings, depths and workers. A queue exists from its first job or its first settings on. Depths are counted up to 10,000; `depth_capped` names those that reached it. With `depth_budget`, the queues of the page share that many: each depth is counted up to an equal part of it, which makes a page of many deep queues faster.
//	@Param       depth_budget query int false "How many jobs of each state are counted at most, in all queues of the page together, 1 to 1000000. Default: 10,000 in each queue. `wait_ms` is null where the jobs ahead are not all counted."
//	@Success     200 {object} api.Page[api.Queue] "A page of queues."
func (h *Handlers) ListQueues(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	q := request.NewQuery(c.Query)
	asked := hop.ListQueuesRequest{PageRequest: q.Page(), DepthBudget: q.Whole("depth_budget", api.MaxDepthBudget)}
	if err := q.Err(); err != nil {
		return call.Passed{}, err
	}
	return call.Pass(ctx, h.core, c, hop.ListQueues, asked)
}

// ListQueueKeys lists the keys of a queue.
//
//	@Description The keys with jobs that are ready, run, or wait for others of their key, by name. Counts stop at 10,000.
//	@Param       min_waiting query int false "Only keys with at least so many jobs that wait for others of the key, 1 to 10000."
//	@Success     200 {object} api.Page[api.QueueKey] "A page of keys."
func (h *Handlers) ListQueueKeys(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	name, err := c.Name()
	if err != nil {
		return call.Passed{}, err
	}
	q := request.NewQuery(c.Query)
	asked := hop.ListQueueKeysRequest{PageRequest: q.Page(), Name: name, MinWaiting: q.Whole("min_waiting", api.MaxCountedKeyJobs)}
	if err := q.Err(); err != nil {
		return call.Passed{}, err
	}
	return call.Pass(ctx, h.core, c, hop.ListQueueKeys, asked)
}

// ScaleQueue reads how many worker slots a queue needs.
//
//	@Description For an autoscaler: `desired_slots` is how many jobs have to run at the same time so that jobs wait for at most about `target_wait_ms`: arrivals × mean run time, and what the backlog needs to be gone within the target. It is never below what runs, and never 0 while jobs arrive or wait, or where a schedule submits a job within `cold_start_ms`; for a queue that is paused or in a window it is what runs. Divide it by the slots of a worker. `because` says how it comes about.
//	@Param       target_wait_ms query int false "How long jobs may wait, in milliseconds, at most a day (30000)."
//	@Param       cold_start_ms  query int false "How long a worker takes to start, in milliseconds, at most a day (0)."
//	@Success     200 {object} api.Scale "The number, and what it is made of."
func (h *Handlers) ScaleQueue(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	name, err := c.Name()
	if err != nil {
		return call.Passed{}, err
	}
	q := request.NewQuery(c.Query)
	asked := hop.ScaleQueueRequest{Name: name, TargetWaitMS: q.Whole("target_wait_ms", api.MaxTargetWaitMS), ColdStartMS: q.WholeOrZero("cold_start_ms", api.MaxColdStartMS)}
	if err := q.Err(); err != nil {
		return call.Passed{}, err
	}
	return call.Pass(ctx, h.core, c, hop.ScaleQueue, asked)
}

// GetQueue reads a queue.
//
//	@Description Effective settings, depths, the age of the oldest ready job, the number of workers, and types and tags that jobs need and no worker has. In push mode, also the state of the destination's circuit breaker.
//	@Success     200 {object} api.Queue "The queue."
func (h *Handlers) GetQueue(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	passed, err := call.ByName(ctx, h.core, c, hop.GetQueue)
	return passed, noQueue(c, err)
}

// PutQueue sets a queue.
//
//	@Description Creates the queue, or replaces its settings: absent fields get their defaults. A paused queue stays paused. Jobs take their attempts and backoff from the queue when they are submitted, and the visibility timeout when they are claimed.
//	@Description
//	@Description **Push.** A queue in mode `push` needs no worker: its jobs are posted to `push.url`, signed as specified by Standard Webhooks. Each destination has a circuit breaker that opens when too many calls fail; while it is open, jobs wait and use no attempts. `max_running` limits concurrent calls, `rate_per_second` the calls started each second. The URL may also name a broker, to which each job is published: `amqps://user:password@host/exchange/key`, `tls://host/subject` (NATS JetStream), `kafka+tls://host/topic`; user and password are stored encrypted and never shown. `push.settle` says whether its confirm or the message's consumer completes the job.
//	@Description
//	@Description **The signing secret** is returned once, as `settings.push.secret`, by the PUT that created or replaced it; it is null everywhere else. A PUT without `push.secret` keeps the current secret. If the answer was lost, request a new secret with `push.new_secret`. If the operator has not enabled push mode, the answer is 400 `invalid_request`.
//	@Param       settings body api.QueueRequest true "The settings."
//	@Success     200 {object} api.Queue "The queue as it is now."
//	@x-problems  ["too_many_lanes", "cost_above_budget"]
//	@x-example-basic    {"visibility_timeout_ms": 60000, "max_attempts": 5, "retry": {"base_ms": 1000, "cap_ms": 60000, "jitter": 0.2}, "max_running": 20}
//	@x-example-push     {"mode": "push", "push": {"url": "https://example.com/jobs", "timeout_ms": 10000, "breaker": {"failure_ratio": 0.3}}, "max_running": 10, "rate_per_second": 50, "retry": {"base_ms": 2000, "curve": "linear"}}
//	@x-example-broker   {"mode": "push", "push": {"url": "amqps://ada:secret@rabbit.example.com/shop/order.new", "settle": "worker"}, "visibility_timeout_ms": 600000}
//	@x-example-new-push-secret {"mode": "push", "push": {"url": "https://example.com/jobs", "new_secret": true}}
//	@x-example-reset    {}
func (h *Handlers) PutQueue(ctx context.Context, c *call.Call, r api.QueueRequest) (call.Passed, error) {
	return call.Put(ctx, h.core, c, hop.PutQueue, r)
}

// PauseQueue pauses a queue.
//
//	@Description No more jobs are claimed from it. Running jobs continue, and jobs can still be submitted. A repeat changes nothing.
//	@Success     200 {object} api.Queue "The queue as it is now."
//	@x-problems  ["too_many_lanes"]
func (h *Handlers) PauseQueue(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	passed, err := call.Pause(ctx, h.core, c, hop.PauseQueue, true)
	return passed, noQueue(c, err)
}

// ResumeQueue resumes a queue.
//
//	@Description Jobs are claimed from it again. A repeat changes nothing.
//	@Success     200 {object} api.Queue "The queue as it is now."
//	@x-problems  ["too_many_lanes"]
func (h *Handlers) ResumeQueue(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	passed, err := call.Pause(ctx, h.core, c, hop.PauseQueue, false)
	return passed, noQueue(c, err)
}

// ProbeQueue tries a queue's destination now.
//
//	@Description Makes the open breaker of a queue in push mode half-open, in every core within a second: the next jobs are sent to the destination, as many from each core as `half_open` allows. If they are accepted the breaker closes; if not it is open for its full time again, and no job loses an attempt. Where the breaker is closed nothing changes. A queue that is not in push mode is 400.
//	@Success     200 {object} api.Queue "The queue as it is now."
func (h *Handlers) ProbeQueue(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	passed, err := call.ByName(ctx, h.core, c, hop.ProbeQueue)
	return passed, noQueue(c, err)
}

// DeleteQueue deletes an empty queue.
//
//	@Description Deletes the queue's settings, in push mode also its destination and secret. A queue with live jobs or dead letters is 409, and `detail` says how many. Ended jobs are kept. A repeat, or a queue that does not exist, is 204.
//	@Description
//	@Description A job that is submitted to the queue later, also by a schedule, creates it again with default settings. A job that is submitted at the same moment is not lost; it may still have the old settings' attempt limit or backoff.
//	@Success     204 "The queue is deleted."
//	@x-problems  ["queue_not_empty"]
func (h *Handlers) DeleteQueue(ctx context.Context, c *call.Call, _ call.None) (call.Response[call.None], error) {
	return call.NoContent(call.ByName(ctx, h.core, c, hop.DeleteQueue))
}

// noQueue says, where there is no queue, how one is made.
func noQueue(c *call.Call, err error) error {
	if p, ok := problem.From(err); !ok || p.Code != problem.NotFound {
		return err
	}
	name := c.Params["name"]
	return problem.New(problem.NotFound, fmt.Sprintf("There is no queue %q. Its first job creates it, or its settings do: PUT /v1/queues/%s.", name, name))
}
