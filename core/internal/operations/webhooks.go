package operations

import (
	"context"
	"crypto/subtle"
	"encoding/base64"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// PutWebhook creates a webhook, or replaces all of its settings but the secret. The secret is in this
// answer where the call made the webhook.
//
//	@x-problems  ["not_found", "queue_not_empty"]
//	@x-example-webhook {"name": "billing", "value": {"url": "https://example.com/hooks", "events": ["job.completed", "job.dead_letter"], "filter": {"queue": "invoices"}}}
func (o *Operations) PutWebhook(ctx context.Context, owner tenant.ID, item hop.Item[hop.Put[api.WebhookRequest]]) (api.Webhook, error) {
	request := &item.Request
	// Validated by the gateway too, see submitCall.
	if fields := request.Value.Validate(); len(fields) > 0 {
		return api.Webhook{}, problem.Invalid(fields...)
	}
	if !api.ValidName(request.Name) {
		return api.Webhook{}, store.ErrNotFound
	}
	if err := o.sealsAvailable(); err != nil {
		return api.Webhook{}, err
	}
	u, wrong := api.PushURL(request.Value.URL)
	if wrong == "" {
		wrong = o.Targets.Guard.Judge(u)
	}
	if wrong != "" {
		return api.Webhook{}, problem.Invalid(problem.FieldError{Field: "url", Message: wrong})
	}
	secret := drawSecret()
	shown, made, err := o.Engine.Submits.PutWebhook(ctx, owner, request.Name, request.Value, o.sealWebhook(owner, request.Name, secret))
	if err == nil && made {
		shown.Secret = &secret
	}
	return shown, err
}

func (o *Operations) sealsAvailable() error {
	if o.Targets.Seals == nil {
		return problem.Invalid(problem.FieldError{Field: "url", Message: "webhooks are not available: the operator has not set FORGEQUEUE_PUSH_SECRETS_KEY"})
	}
	return nil
}

func (o *Operations) sealWebhook(owner tenant.ID, name, secret string) []byte {
	return o.Targets.Seals.Seal([]byte(secret), tenant.QueueKey{Tenant: owner, Name: api.WebhookQueue(name)}.SecretPlace())
}

// GetWebhook reads a webhook: its settings and how its deliveries go.
//
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
func (o *Operations) GetWebhook(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (api.Webhook, error) {
	return o.Engine.Submits.Webhook(ctx, owner, item.Request.Name)
}

// ListWebhooks lists webhooks, by name.
func (o *Operations) ListWebhooks(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.Webhook], error) {
	of := pages.ListingOf(hop.ListWebhooks.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return pages.Listed(o.Pages, of, pages.ByText, func(one api.Webhook) string { return one.Name }, func(after string, limit int) ([]api.Webhook, error) {
		return o.Engine.Submits.Webhooks(ctx, owner, after, limit)
	})
}

// DeleteWebhook deletes a webhook, with its deliveries, dead letters among them.
//
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
func (o *Operations) DeleteWebhook(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (struct{}, error) {
	return struct{}{}, o.Engine.Submits.DeleteWebhook(ctx, owner, item.Request.Name)
}

// RotateWebhookSecret gives a webhook a new secret. It is in this answer, and in no other. Calls are signed
// with both for 24 hours.
//
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
func (o *Operations) RotateWebhookSecret(ctx context.Context, owner tenant.ID, item hop.Item[hop.OnceRequest]) (api.Webhook, error) {
	if err := o.sealsAvailable(); err != nil {
		return api.Webhook{}, err
	}
	name, secret := item.Request.Name, drawSecret()
	place := tenant.QueueKey{Tenant: owner, Name: api.WebhookQueue(name)}.SecretPlace()
	shown, err := o.Engine.Submits.RotateWebhookSecret(ctx, owner, name, func(present, known []byte) ([]byte, error) {
		if keyed := item.Request.Idempotency; keyed != nil {
			// The secret follows from the key and from the one before: a repeat makes the same, and finds it there.
			before, _, err := o.Targets.Seals.Open(known, place)
			if err != nil {
				return nil, err
			}
			secret = api.PushSecretPrefix + base64.StdEncoding.EncodeToString(o.Targets.Seals.Derive("webhook rotation", place, keyed.Key, string(before))[:secretBytes])
			if now, _, err := o.Targets.Seals.Open(present, place); err == nil && subtle.ConstantTimeCompare(now, []byte(secret)) == 1 {
				return nil, nil
			}
		}
		return o.sealWebhook(owner, name, secret), nil
	})
	if err == nil {
		shown.Secret = &secret
	}
	return shown, err
}

// TestWebhook submits a delivery of an event webhook.test, as a job under an id that the gateway drew (UUID
// v7).
//
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing", "id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) TestWebhook(ctx context.Context, owner tenant.ID, item hop.Item[hop.OnceRequest]) (api.JobSummary, error) {
	id, err := uuid.Parse(item.Request.ID)
	if err != nil {
		return api.JobSummary{}, problem.Invalid(problem.FieldError{Field: "id", Message: "must be a UUID"})
	}
	var keyed *submit.Idempotency
	if item.Request.Idempotency != nil {
		if keyed, err = idempotencyOf(item.Request.Idempotency); err != nil {
			return api.JobSummary{}, err
		}
	}
	return o.Engine.Submits.TestWebhook(ctx, owner, item.Request.Name, id, keyed, renderSubmit)
}

// ProbeWebhook makes the open breaker of a webhook half-open, in every core. Where it is closed nothing
// changes.
//
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
func (o *Operations) ProbeWebhook(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (api.Webhook, error) {
	name := item.Request.Name
	if err := o.Store.Webhooks.CheckWebhook(ctx, owner, name); err != nil {
		return api.Webhook{}, err
	}
	done := audit.Event{Tenant: &owner, Action: api.AuditWebhookProbe, Object: name}
	if err := o.probeDestination(ctx, tenant.QueueKey{Tenant: owner, Name: api.WebhookQueue(name)}, done); err != nil {
		return api.Webhook{}, err
	}
	return o.Engine.Submits.Webhook(ctx, owner, name)
}
