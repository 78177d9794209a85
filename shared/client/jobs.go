package client

import (
	"context"
	"crypto/rand"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/api"
)

// CallOption changes one call.
type CallOption func(*callOptions)

type callOptions struct {
	idempotencyKey string
}

// WithIdempotencyKey takes the place of the key that the client would draw: 1 to
// 255 visible ASCII characters. The same key with the same body gets the first
// call's answer again, also after this process has ended; with another body it
// is refused with 422 idempotency_mismatch.
func WithIdempotencyKey(key string) CallOption {
	return func(o *callOptions) { o.idempotencyKey = key }
}

// idempotencyKey is the given key, or one of at least 128 random bits.
func idempotencyKey(options []CallOption) string {
	var chosen callOptions
	for _, option := range options {
		option(&chosen)
	}
	if chosen.idempotencyKey == "" {
		return rand.Text()
	}
	return chosen.idempotencyKey
}

// Submit stores one job. Problems to expect: invalid_request, rate_limited,
// active_cap_reached, queue_full, payload_too_large.
func (c *Client) Submit(ctx context.Context, job api.SubmitRequest, options ...CallOption) (api.SubmitResponse, error) {
	var answer api.SubmitResponse
	err := c.do(ctx, call{
		method: http.MethodPost, path: []string{"v1", "jobs"}, body: job, answer: &answer,
		key: idempotencyKey(options), repeatable: true,
	})
	return answer, err
}

// SubmitBatch stores up to 1000 jobs. Without Atomic a nil error does not mean
// that all were accepted: look at Rejected, and at each result's Problem.
func (c *Client) SubmitBatch(ctx context.Context, batch api.BatchRequest, options ...CallOption) (api.BatchResponse, error) {
	var answer api.BatchResponse
	err := c.do(ctx, call{
		method: http.MethodPost, path: []string{"v1", "jobs", "batch"}, body: batch, answer: &answer,
		key: idempotencyKey(options), repeatable: true,
	})
	return answer, err
}

// Get reads one job; not_found also stands for the jobs of others.
func (c *Client) Get(ctx context.Context, id string) (api.Job, error) {
	var answer api.Job
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "jobs", id}, answer: &answer, repeatable: true})
	return answer, err
}

// Whoami tells what the key is.
func (c *Client) Whoami(ctx context.Context) (api.Whoami, error) {
	var answer api.Whoami
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "whoami"}, answer: &answer, repeatable: true})
	return answer, err
}
