package handlers

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ListWebhooks lists webhooks.
//
//	@Description The tenant's webhooks by name, with the number of their deliveries and the result of the last call.
//	@Success     200 {object} api.Page[api.Webhook] "A page of webhooks."
func (h *Handlers) ListWebhooks(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Paged(ctx, h.core, c, hop.ListWebhooks)
}

// GetWebhook reads a webhook.
//
//	@Description Its settings, how many deliveries wait, are being called and could not be delivered, the result of the last call, and the circuit breaker of its destination. The deliveries are jobs of `queue`: `GET /v1/jobs?queue=_webhook.NAME` lists them, `GET /v1/dead-letters?queue=_webhook.NAME` those that failed.
//	@Success     200 {object} api.Webhook "The webhook."
func (h *Handlers) GetWebhook(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.ByName(ctx, h.core, c, hop.GetWebhook)
}

// PutWebhook sets a webhook.
//
//	@Description Creates the webhook, or replaces its settings: absent fields get their defaults. From then on `url` is called once for each event of `events` whose job matches `filter`, signed as specified by Standard Webhooks. `filter` does not apply to `workflow.ended`.
//	@Description
//	@Description **The signing secret** is in the answer that created the webhook, and is null everywhere else. If it was lost, rotate it. A webhook whose deletion has not ended is 409 `queue_not_empty`.
//	@Param       webhook body api.WebhookRequest true "The settings."
//	@Success     200 {object} api.Webhook "The webhook as it is now."
//	@x-problems  ["queue_not_empty"]
//	@x-example-failures {"url": "https://example.com/hooks", "events": ["job.dead_letter"]}
//	@x-example-queue    {"url": "https://example.com/hooks", "events": ["job.completed", "job.dead_letter", "job.cancelled"], "filter": {"queue": "invoices"}}
//	@x-example-workflows {"url": "https://example.com/hooks", "events": ["workflow.ended"]}
func (h *Handlers) PutWebhook(ctx context.Context, c *call.Call, r api.WebhookRequest) (call.Passed, error) {
	return call.Put(ctx, h.core, c, hop.PutWebhook, r)
}

// DeleteWebhook deletes a webhook.
//
//	@Description Ends it: no more calls are begun. Its waiting deliveries and those that failed are deleted; completed ones stay for their retention.
//	@Success     204 "The webhook is deleted."
func (h *Handlers) DeleteWebhook(ctx context.Context, c *call.Call, _ call.None) (call.Response[call.None], error) {
	return call.NoContent(call.ByName(ctx, h.core, c, hop.DeleteWebhook))
}

// RotateWebhookSecret rotates a webhook's secret.
//
//	@Description Gives the webhook a new secret, which only this answer shows. For 24 hours calls carry two signatures, with the new secret and with the one before, so that your endpoint can change over at any time. A second rotation within that time replaces the new secret, and keeps the one from before the first. With an `Idempotency-Key`, a repeat gets the same secret again.
//	@Success     200 {object} api.Webhook "The webhook, with its new secret."
func (h *Handlers) RotateWebhookSecret(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	name, err := c.Name()
	if err != nil {
		return call.Passed{}, err
	}
	return call.Pass(ctx, h.core, c, hop.RotateWebhookSecret, hop.OnceRequest{Name: name, Idempotency: c.KeyFor(name)})
}

// ProbeWebhook tries a webhook's URL now.
//
//	@Description Makes the open breaker of the webhook's destination half-open, in every core within a second: the next deliveries are sent. Where it is closed nothing changes.
//	@Success     200 {object} api.Webhook "The webhook as it is now."
func (h *Handlers) ProbeWebhook(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.ByName(ctx, h.core, c, hop.ProbeWebhook)
}

// TestWebhook tests a webhook.
//
//	@Description Submits one delivery of the type `webhook.test`. The answer is its job: `GET /v1/jobs/{id}` with `Prefer: wait` shows how the call ended. With an `Idempotency-Key`, a repeat submits no other one.
//	@Success     202 {object} api.JobSummary "The delivery."
//	@Header      202 {string} Location "The delivery's path."
func (h *Handlers) TestWebhook(ctx context.Context, c *call.Call, _ call.None) (call.Response[api.JobSummary], error) {
	name, err := c.Name()
	if err != nil {
		return call.Response[api.JobSummary]{}, err
	}
	ids, err := drawIDs(1)
	if err != nil {
		return call.Response[api.JobSummary]{}, err
	}
	answer, err := call.Send(ctx, h.core, c, hop.TestWebhook, hop.OnceRequest{Name: name, ID: ids[0], Idempotency: c.KeyFor(name)})
	if err != nil {
		return answer, err
	}
	answer.Status, answer.Location = http.StatusAccepted, "/v1/jobs/"+answer.Value.ID
	return answer, nil
}
