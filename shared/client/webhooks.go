package client

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Webhooks gives one page of webhooks, by name.
func (c *Client) Webhooks(ctx context.Context, page PageRequest) (api.Page[api.Webhook], error) {
	return list[api.Webhook](ctx, c, page.query(), "webhooks")
}

// Webhook reads one webhook: its settings, its deliveries, its last call.
func (c *Client) Webhook(ctx context.Context, name string) (api.Webhook, error) {
	return c.webhook(ctx, http.MethodGet, nil, name)
}

// PutWebhook makes a webhook or replaces all of its settings but the secret. Secret is set in the answer of the
// call that made it: where that answer was lost, RotateWebhookSecret makes another one.
func (c *Client) PutWebhook(ctx context.Context, name string, webhook api.WebhookRequest) (api.Webhook, error) {
	return c.webhook(ctx, http.MethodPut, webhook, name)
}

// RotateWebhookSecret gives a webhook a new secret, which only this answer and those to repeats with its Idempotency-Key
// have. For 24 hours calls are signed with the secret of before too. The options are those of Submit.
func (c *Client) RotateWebhookSecret(ctx context.Context, name string, options ...CallOption) (api.Webhook, error) {
	var answer api.Webhook
	_, err := c.submit(ctx, call{path: []string{"v1", "webhooks", name, "rotate-secret"}, answer: &answer}, options)
	return answer, err
}

// ProbeWebhook lets the next deliveries of a webhook through although the breaker of its destination is open. Where
// it is closed nothing changes.
func (c *Client) ProbeWebhook(ctx context.Context, name string) (api.Webhook, error) {
	return c.webhook(ctx, http.MethodPost, nil, name, "probe")
}

// TestWebhook submits a test delivery, and gives its job; Wait tells how it ended. The options are those of Submit.
func (c *Client) TestWebhook(ctx context.Context, name string, options ...CallOption) (api.JobSummary, error) {
	var answer api.JobSummary
	_, err := c.submit(ctx, call{path: []string{"v1", "webhooks", name, "test"}, answer: &answer}, options)
	return answer, err
}

// DeleteWebhook deletes a webhook with its waiting and failed deliveries. The problem not_found may also mean that
// an answer was lost, and the call repeated.
func (c *Client) DeleteWebhook(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"v1", "webhooks", name}, repeatable: true})
}

func (c *Client) webhook(ctx context.Context, method string, body any, segments ...string) (api.Webhook, error) {
	var answer api.Webhook
	err := c.do(ctx, call{
		method: method, path: append([]string{"v1", "webhooks"}, segments...), body: body, answer: &answer, repeatable: true,
	})
	return answer, err
}
