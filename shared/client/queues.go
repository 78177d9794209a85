package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Queues gives one page of the tenant's queues, by name.
func (c *Client) Queues(ctx context.Context, page PageRequest) (api.Page[api.Queue], error) {
	return list[api.Queue](ctx, c, page.query(), "queues")
}

// QueuesWithin is Queues that counts depthBudget jobs of each state at most, in all queues of the page together: a page of
// many deep queues is faster so.
func (c *Client) QueuesWithin(ctx context.Context, depthBudget int, page PageRequest) (api.Page[api.Queue], error) {
	query := page.query()
	query.Set("depth_budget", strconv.Itoa(depthBudget))
	return list[api.Queue](ctx, c, query, "queues")
}

// QueueKeys gives one page of the keys of a queue with jobs that are ready, run, or wait for others of their key, by name:
// those with at least minWaiting jobs that wait for others, all for 0.
func (c *Client) QueueKeys(ctx context.Context, name string, minWaiting int, page PageRequest) (api.Page[api.QueueKey], error) {
	query := page.query()
	if minWaiting > 0 {
		query.Set("min_waiting", strconv.Itoa(minWaiting))
	}
	return list[api.QueueKey](ctx, c, query, "queues", name, "keys")
}

// Queue reads one queue: its settings, depths and workers.
func (c *Client) Queue(ctx context.Context, name string) (api.Queue, error) {
	return c.queue(ctx, http.MethodGet, nil, name)
}

// ScaleQueue reads how many slots of workers a queue needs so that its jobs wait for at most about target (0: 30 s).
// coldStart is how long a worker takes to start: a schedule that submits a job before that needs one.
func (c *Client) ScaleQueue(ctx context.Context, name string, target, coldStart time.Duration) (api.Scale, error) {
	query := url.Values{}
	for parameter, d := range map[string]time.Duration{"target_wait_ms": target, "cold_start_ms": coldStart} {
		if d > 0 {
			query.Set(parameter, strconv.FormatInt(d.Milliseconds(), 10))
		}
	}
	var answer api.Scale
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "queues", name, "scale"}, query: query, answer: &answer, repeatable: true})
	return answer, err
}

// PutQueue makes a queue or replaces all of its settings; what is nil is the
// default again. A repeat changes nothing.
func (c *Client) PutQueue(ctx context.Context, name string, settings api.QueueRequest) (api.Queue, error) {
	return c.queue(ctx, http.MethodPut, settings, name)
}

// PauseQueue stops the claims from a queue; what runs continues. A repeat changes
// nothing.
func (c *Client) PauseQueue(ctx context.Context, name string) (api.Queue, error) {
	return c.queue(ctx, http.MethodPost, nil, name, "pause")
}

// ResumeQueue allows them again. A repeat changes nothing.
func (c *Client) ResumeQueue(ctx context.Context, name string) (api.Queue, error) {
	return c.queue(ctx, http.MethodPost, nil, name, "resume")
}

// ProbeQueue lets the next calls of a queue in push mode through although the breaker of its destination is open.
// Where it is closed nothing changes. The problem invalid_request refuses a queue that is not in push mode.
func (c *Client) ProbeQueue(ctx context.Context, name string) (api.Queue, error) {
	return c.queue(ctx, http.MethodPost, nil, name, "probe")
}

// DeleteQueue forgets an empty queue and its settings; queue_not_empty says that it has
// jobs. A repeat, and a queue that is not there, is no error.
func (c *Client) DeleteQueue(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"v1", "queues", name}, repeatable: true})
}

func (c *Client) queue(ctx context.Context, method string, body any, segments ...string) (api.Queue, error) {
	var answer api.Queue
	err := c.do(ctx, call{
		method: method, path: append([]string{"v1", "queues"}, segments...), body: body, answer: &answer, repeatable: true,
	})
	return answer, err
}
