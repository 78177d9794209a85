package submits

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Webhooks lists a tenant's webhooks by name, after one of them.
func (s *Submits) Webhooks(ctx context.Context, owner tenant.ID, after string, size int) ([]api.Webhook, error) {
	shown, err := s.store.Webhooks.Webhooks(ctx, owner, after, size)
	for i := range shown {
		shown[i].Breaker = s.cached.Breakers.Of(tenant.QueueKey{Tenant: owner, Name: shown[i].Queue})
	}
	return shown, err
}

// Webhook shows one of a tenant's webhooks.
func (s *Submits) Webhook(ctx context.Context, owner tenant.ID, name string) (api.Webhook, error) {
	shown, err := s.store.Webhooks.Webhook(ctx, owner, name)
	shown.Breaker = s.cached.Breakers.Of(tenant.QueueKey{Tenant: owner, Name: shown.Queue})
	return shown, err
}

// PutWebhook makes a tenant's webhook with a sealed secret, or replaces its settings; made says which.
func (s *Submits) PutWebhook(ctx context.Context, owner tenant.ID, name string, request api.WebhookRequest, secret []byte) (shown api.Webhook, made bool, err error) {
	if made, err = s.store.Webhooks.PutWebhook(ctx, owner, name, request, secret); err != nil {
		return shown, false, err
	}
	if err := s.publisher.SettingsChanged(ctx); err != nil {
		return shown, false, err
	}
	if !request.Paused {
		s.publisher.WakeQueue(tenant.QueueKey{Tenant: owner, Name: api.WebhookQueue(name)})
	}
	shown, err = s.Webhook(ctx, owner, name)
	return shown, made, err
}

// RotateWebhookSecret gives a tenant's webhook the sealed secret that next makes of those that it has, see
// [webhook.Hooks.RotateSecret].
func (s *Submits) RotateWebhookSecret(ctx context.Context, owner tenant.ID, name string, next func(present, known []byte) ([]byte, error)) (api.Webhook, error) {
	if err := s.store.Webhooks.RotateSecret(ctx, owner, name, next); err != nil {
		return api.Webhook{}, err
	}
	if err := s.publisher.SettingsChanged(ctx); err != nil {
		return api.Webhook{}, err
	}
	return s.Webhook(ctx, owner, name)
}

// DeleteWebhook ends a tenant's webhook. Many deliveries are removed afterwards, by a duty.
func (s *Submits) DeleteWebhook(ctx context.Context, owner tenant.ID, name string) error {
	if err := s.store.Webhooks.DeleteWebhook(ctx, owner, name); err != nil {
		return err
	}
	for range removalsAtOnce {
		more, err := s.store.Webhooks.RemoveWebhookData(ctx, webhook.Deleted{TenantID: owner, Name: name}, removalBatch)
		if err != nil {
			s.log.WarnContext(ctx, "the deliveries of a deleted webhook are removed later", "tenant", owner, "webhook", name, "error", err)
		}
		if err != nil || !more {
			break
		}
	}
	return s.publisher.SettingsChanged(ctx)
}

// removalsAtOnce are the batches of deliveries that the request itself removes.
const (
	removalsAtOnce = 4
	removalBatch   = 200
)

// TestWebhook submits a test delivery of a tenant's webhook, and gives its job; a repeat of a keyed one that of the first.
// render makes what is saved for the key.
func (s *Submits) TestWebhook(
	ctx context.Context, owner tenant.ID, name string, id uuid.UUID, keyed *submit.Idempotency, render func(*submit.Answer) (submit.Response, error),
) (api.JobSummary, error) {
	if err := s.store.Webhooks.CheckWebhook(ctx, owner, name); err != nil {
		return api.JobSummary{}, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return api.JobSummary{}, err
	}
	body := api.WebhookEvent{Type: api.EventWebhookTest, Timestamp: api.At(now), Data: api.WebhookEventData{Webhook: name}}
	made := webhook.NewDelivery(id, name, body)
	lane, err := s.cached.Maker.EnsureOne(ctx, webhook.DeliveryLane{Webhook: name, Kind: body.Type}.Key(owner))
	if err != nil {
		return api.JobSummary{}, err
	}
	made.Lane, made.Deadline = lane.ID, new(now.Add(testKept))
	answer := s.flushes.submit(ctx, []*submit.Submission{{Tenant: owner, Jobs: []submit.NewJob{made}, Idempotency: keyed, Render: render}})[0]
	switch {
	case answer.Err != nil:
		return api.JobSummary{}, answer.Err
	case answer.Value.Problem != nil:
		return api.JobSummary{}, answer.Value.Problem
	case answer.Value.Replayed:
		var first api.JobSummary
		return first, json.Unmarshal(answer.Value.Saved.Body, &first)
	}
	return answer.Value.Jobs[0].Row.Summary(), s.store.Webhooks.RecordTest(ctx, owner, name, id)
}

// testKept ends a test delivery that was not made: who asked for it has gone.
const testKept = time.Hour

// Deliver makes the deliveries of some of a tenant's events, and wakes the executor. done counts the events,
// more says that there may be others.
func (s *Submits) Deliver(ctx context.Context, owner tenant.ID) (done int, more bool, err error) {
	step, err := s.store.Webhooks.NextEvents(ctx, owner)
	if err != nil {
		return 0, false, err
	}
	if err := s.deliveryLanes(ctx, &step); err != nil {
		return 0, false, err
	}
	delivered, err := s.store.Webhooks.Deliver(ctx, &step)
	if err != nil {
		return 0, false, err
	}
	s.publisher.Publish(ctx, publish.Changes{Stored: delivered.Answers})
	return delivered.Done, delivered.More, nil
}

// deliveryLanes fills in the lanes of a step.
func (s *Submits) deliveryLanes(ctx context.Context, step *webhook.Step) error {
	asks := make([]lanes.Ask, 0, len(step.Lanes))
	names := make([]webhook.DeliveryLane, 0, len(step.Lanes))
	for name := range step.Lanes {
		asks, names = append(asks, lanes.Ask{Key: name.Key(step.Tenant)}), append(names, name)
	}
	if len(asks) == 0 {
		return nil
	}
	made, err := s.cached.Maker.Ensure(ctx, step.Tenant, asks)
	if err != nil {
		return err
	}
	for i, name := range names {
		if made[i].Refused != 0 {
			return lanes.ErrTooMany
		}
		step.Lanes[name] = made[i].ID
	}
	return nil
}
