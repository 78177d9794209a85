package httpapi

import (
	"context"
	"crypto/subtle"
	"encoding/base64"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/idempotency"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// putWebhook makes a webhook, or replaces its settings.
//
//	@Summary     Set a webhook
//	@Description Makes it, or replaces all of its settings but the secret. The secret is in this answer where the call made the webhook.
//	@ID          webhookPuts
//	@Tags        Webhooks
//	@Param       envelope body api.Envelope[api.HopWebhookPutRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Webhook] "An answer for each item."
//	@x-access    "manager"
//	@x-problems  ["not_found", "queue_not_empty"]
//	@x-example-webhook {"name": "billing", "url": "https://example.com/hooks", "events": ["job.completed", "job.dead_letter"], "filter": {"queue": "invoices"}}
//	@Router      /internal/v1/webhook-puts [post]
func (s *Server) putWebhook(ctx context.Context, owner tenant.ID, item api.Item[api.HopWebhookPutRequest]) (api.Webhook, error) {
	request := &item.Request
	// Validated by the gateway too, see submitCall.
	if fields := request.Validate(); len(fields) > 0 {
		return api.Webhook{}, problem.Invalid(fields...)
	}
	if !api.ValidName(request.Name) {
		return api.Webhook{}, store.ErrNotFound
	}
	if err := s.sealsAvailable(); err != nil {
		return api.Webhook{}, err
	}
	u, wrong := api.PushURL(request.URL)
	if wrong == "" {
		wrong = s.Guard.Judge(u)
	}
	if wrong != "" {
		return api.Webhook{}, problem.Invalid(problem.FieldError{Field: "url", Message: wrong})
	}
	secret := drawSecret()
	shown, made, err := s.Dispatcher.PutWebhook(ctx, owner, request.Name, request.WebhookRequest, s.sealWebhook(owner, request.Name, secret))
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

// getWebhook reads a webhook.
//
//	@Summary     Read a webhook
//	@Description Its settings and how its deliveries go.
//	@ID          webhookGets
//	@Tags        Webhooks
//	@Param       envelope body api.Envelope[api.HopWebhookRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Webhook] "An answer for each item."
//	@x-access    "manager"
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
//	@Router      /internal/v1/webhook-gets [post]
func (s *Server) getWebhook(ctx context.Context, owner tenant.ID, item api.Item[api.HopWebhookRequest]) (api.Webhook, error) {
	return s.Dispatcher.Webhook(ctx, owner, item.Request.Name)
}

// listWebhooks reads a page of a tenant's webhooks.
//
//	@Summary     List webhooks
//	@Description A page, by name.
//	@ID          webhookLists
//	@Tags        Webhooks
//	@Param       envelope body api.Envelope[api.HopPageRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Webhook]] "An answer for each item."
//	@x-access    "manager"
//	@x-example-first {"page_size": 50}
//	@Router      /internal/v1/webhook-lists [post]
func (s *Server) listWebhooks(ctx context.Context, owner tenant.ID, item api.Item[api.HopPageRequest]) (api.Page[api.Webhook], error) {
	of := listingOf(api.HopWebhookList, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return listed(s, of, byText, func(one api.Webhook) string { return one.Name }, func(after string, limit int) ([]api.Webhook, error) {
		return s.Dispatcher.Webhooks(ctx, owner, after, limit)
	})
}

// deleteWebhook deletes a webhook.
//
//	@Summary     Delete a webhook
//	@Description With its deliveries, dead letters among them.
//	@ID          webhookDeletions
//	@Tags        Webhooks
//	@Param       envelope body api.Envelope[api.HopWebhookRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[any] "An answer for each item."
//	@x-access    "manager"
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
//	@Router      /internal/v1/webhook-deletions [post]
func (s *Server) deleteWebhook(ctx context.Context, owner tenant.ID, item api.Item[api.HopWebhookRequest]) (struct{}, error) {
	return struct{}{}, s.Dispatcher.DeleteWebhook(ctx, owner, item.Request.Name)
}

// rotateWebhookSecret gives a webhook a new secret.
//
//	@Summary     Rotate a webhook's secret
//	@Description The new secret is in this answer, and in no other. Calls are signed with both for 24 hours.
//	@ID          webhookRotations
//	@Tags        Webhooks
//	@Param       envelope body api.Envelope[api.HopWebhookRotateRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Webhook] "An answer for each item."
//	@x-access    "manager"
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
//	@Router      /internal/v1/webhook-rotations [post]
func (s *Server) rotateWebhookSecret(ctx context.Context, owner tenant.ID, item api.Item[api.HopWebhookRotateRequest]) (api.Webhook, error) {
	if err := s.sealsAvailable(); err != nil {
		return api.Webhook{}, err
	}
	name, secret := item.Request.Name, drawSecret()
	place := tenant.QueueKey{Tenant: owner, Name: api.WebhookQueue(name)}.SecretPlace()
	shown, err := s.Dispatcher.RotateWebhookSecret(ctx, owner, name, func(present, known []byte) ([]byte, error) {
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

// testWebhook submits a test delivery.
//
//	@Summary     Test a webhook
//	@Description A delivery of an event webhook.test, as a job under an id that the gateway drew (UUID v7).
//	@ID          webhookTests
//	@Tags        Webhooks
//	@Param       envelope body api.Envelope[api.HopWebhookTestRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.JobSummary] "An answer for each item."
//	@x-access    "manager"
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing", "id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
//	@Router      /internal/v1/webhook-tests [post]
func (s *Server) testWebhook(ctx context.Context, owner tenant.ID, item api.Item[api.HopWebhookTestRequest]) (api.JobSummary, error) {
	id, err := uuid.Parse(item.Request.ID)
	if err != nil {
		return api.JobSummary{}, problem.Invalid(problem.FieldError{Field: "id", Message: "must be a UUID"})
	}
	var keyed *idempotency.Request
	if item.Request.Idempotency != nil {
		if keyed, err = idempotencyOf(item.Request.Idempotency); err != nil {
			return api.JobSummary{}, err
		}
	}
	return s.Dispatcher.TestWebhook(ctx, owner, item.Request.Name, id, keyed, renderSubmit)
}

// probeWebhook has a webhook's URL tried before its breaker's time.
//
//	@Summary     Try a webhook's URL now
//	@Description Makes its open breaker half-open, in every core. Where it is closed nothing changes.
//	@ID          webhookProbes
//	@Tags        Webhooks
//	@Param       envelope body api.Envelope[api.HopWebhookRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Webhook] "An answer for each item."
//	@x-access    "manager"
//	@x-problems  ["not_found"]
//	@x-example-webhook {"name": "billing"}
//	@Router      /internal/v1/webhook-probes [post]
func (s *Server) probeWebhook(ctx context.Context, owner tenant.ID, item api.Item[api.HopWebhookRequest]) (api.Webhook, error) {
	return s.Dispatcher.ProbeWebhook(ctx, owner, item.Request.Name)
}
