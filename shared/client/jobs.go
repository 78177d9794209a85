package client

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Submit stores one job. The answer's Warnings are worth a look; Deduplicated says
// that it is another live job with the same DedupeKey. Problems to expect:
// invalid_request, rate_limited, active_cap_reached, queue_full,
// payload_too_large, idempotency_mismatch.
func (c *Client) Submit(ctx context.Context, job api.SubmitRequest, options ...CallOption) (api.SubmitResponse, error) {
	var answer api.SubmitResponse
	err := c.submit(ctx, []string{"v1", "jobs"}, job, &answer, options)
	return answer, err
}

// SubmitBatch stores up to 1000 jobs. Without Atomic a nil error does not mean
// that all were accepted: look at Rejected, and at each result's Problem.
func (c *Client) SubmitBatch(ctx context.Context, batch api.BatchRequest, options ...CallOption) (api.BatchResponse, error) {
	var answer api.BatchResponse
	err := c.submit(ctx, []string{"v1", "jobs", "batch"}, batch, &answer, options)
	return answer, err
}

func (c *Client) submit(ctx context.Context, path []string, body, answer any, options []CallOption) error {
	chosen, err := choose(options)
	if err != nil {
		return err
	}
	return c.do(ctx, call{
		method: http.MethodPost, path: path, body: body, answer: answer, repeatable: true,
		key: chosen.idempotencyKey, correlationID: chosen.correlationID, traceparent: chosen.traceparent,
	})
}

// Get reads one job; not_found also stands for the jobs of others.
func (c *Client) Get(ctx context.Context, id string) (api.Job, error) {
	var answer api.Job
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "jobs", id}, answer: &answer, repeatable: true})
	return answer, err
}
