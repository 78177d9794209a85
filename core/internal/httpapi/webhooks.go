package httpapi

import (
	"context"
	"crypto/subtle"
	"encoding/base64"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// putWebhook creates a webhook, or replaces all of its settings but the secret. The secret is in this
// answer where the call made the webhook.
//
//	@x-problems  ["not_found", "queue_not_empty"]
//	@x-example-webhook {"name": "billing", "value": {"url": "https://example.com/hooks", "events": ["job.completed", "job.dead_letter"], "filter": {"queue": "invoices"}}}
func (s *Server) putWebhook(ctx context.Context, owner tenant.ID, item hop.Item[hop.Put[api.WebhookRequest]]) (api.Webhook, error) {
	request := &item.Request
	// Validated by the gateway too, see submitCall.
	if fields := request.Value.Validate(); len(fields) > 0 {
		return api.Webhook{}, problem.Invalid(fields...)
	}
	if !api.ValidName(request.Name) {
		return api.Webhook{}, store.ErrNotFound
	}
	if err := s.sealsAvailable(); err != nil {
		return api.Webhook{}, err
	}
	u, wrong := api.PushURL(request.Value.URL)
	if wrong == "" {
		wrong = s.Guard.Judge(u)
	}
	if wrong != "" {
		return api.Webhook{}, problem.Invalid(problem.FieldError{Field: "url", Message: wrong})
	}
	secret := drawSecret()
	shown, made, err := s.Engine.Submits.PutWebhook(ctx, owner, request.Name, request.Value, s.sealWebhook(owner, request.Name, secret))
	if err == nil && made {
		shown.Secret = &secret
	}
	return shown, err
}

func (s *Server) sealsAvailable() error {
	if s.Seals == nil {
		return problem.Invalid(problem.FieldError{Field: "url", Message: "webhooks are not available: the operator has not set FORGEQUEUE_PUSH_SECRETS_KEY"})
	}
	return nil
}

func (s *Server) sealWebhook(owner tenant.ID, name, secret string) []byte {
	return s.Seals.Seal([]byte(secret), tenant.QueueKey{Tenant: owner, Name: api.WebhookQueue(name)}.SecretPlace())
}

// getWebhook reads a webhook: its settings and how its deliveries go.
//
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
func (s *Server) getWebhook(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (api.Webhook, error) {
	return s.Engine.Submits.Webhook(ctx, owner, item.Request.Name)
}

// listWebhooks lists webhooks, by name.
func (s *Server) listWebhooks(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.Webhook], error) {
	of := listingOf(hop.ListWebhooks.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return listed(s, of, byText, func(one api.Webhook) string { return one.Name }, func(after string, limit int) ([]api.Webhook, error) {
		return s.Engine.Submits.Webhooks(ctx, owner, after, limit)
	})
}

// deleteWebhook deletes a webhook, with its deliveries, dead letters among them.
//
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
func (s *Server) deleteWebhook(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (struct{}, error) {
	return struct{}{}, s.Engine.Submits.DeleteWebhook(ctx, owner, item.Request.Name)
}

// rotateWebhookSecret gives a webhook a new secret. It is in this answer, and in no other. Calls are signed
// with both for 24 hours.
//
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
func (s *Server) rotateWebhookSecret(ctx context.Context, owner tenant.ID, item hop.Item[hop.OnceRequest]) (api.Webhook, error) {
	if err := s.sealsAvailable(); err != nil {
		return api.Webhook{}, err
	}
	name, secret := item.Request.Name, drawSecret()
	place := tenant.QueueKey{Tenant: owner, Name: api.WebhookQueue(name)}.SecretPlace()
	shown, err := s.Engine.Submits.RotateWebhookSecret(ctx, owner, name, func(present, known []byte) ([]byte, error) {
		if keyed := item.Request.Idempotency; keyed != nil {
			// The secret follows from the key and from the one before: a repeat makes the same, and finds it there.
			before, _, err := s.Seals.Open(known, place)
			if err != nil {
				return nil, err
			}
			secret = api.PushSecretPrefix + base64.StdEncoding.EncodeToString(s.Seals.Derive("webhook rotation", place, keyed.Key, string(before))[:secretBytes])
			if now, _, err := s.Seals.Open(present, place); err == nil && subtle.ConstantTimeCompare(now, []byte(secret)) == 1 {
				return nil, nil
			}
		}
		return s.sealWebhook(owner, name, secret), nil
	})
	if err == nil {
		shown.Secret = &secret
	}
	return shown, err
}

// testWebhook submits a delivery of an event webhook.test, as a job under an id that the gateway drew (UUID
// v7).
//
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing", "id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (s *Server) testWebhook(ctx context.Context, owner tenant.ID, item hop.Item[hop.OnceRequest]) (api.JobSummary, error) {
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
	return s.Engine.Submits.TestWebhook(ctx, owner, item.Request.Name, id, keyed, renderSubmit)
}

// probeWebhook makes the open breaker of a webhook half-open, in every core. Where it is closed nothing
// changes.
//
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
func (s *Server) probeWebhook(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (api.Webhook, error) {
	name := item.Request.Name
	if err := s.Store.Webhooks.CheckWebhook(ctx, owner, name); err != nil {
		return api.Webhook{}, err
	}
	done := audit.Event{Tenant: &owner, Action: api.AuditWebhookProbe, Object: name}
	if err := s.probeDestination(ctx, tenant.QueueKey{Tenant: owner, Name: api.WebhookQueue(name)}, done); err != nil {
		return api.Webhook{}, err
	}
	return s.Engine.Submits.Webhook(ctx, owner, name)
}
