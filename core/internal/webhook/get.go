package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// webhooksSQL counts the deliveries of each webhook in the lanes of its queue, as the depths of a queue are
// counted: each count stops at @most. There are at most api.MaxWebhooks.
const webhooksSQL = `
SELECT w.name, q.push_url AS url, w.events, w.queue, w.type, w.tag, w.thresholds, w.label, q.paused, q.push_secret_previous_until AS previous_until,
       w.last_at, w.last_status, w.last_error, w.created_at, GREATEST(w.updated_at, q.updated_at) AS updated_at,
       (SELECT count(*) FROM (SELECT FROM unnest(l.lanes) AS lane(id) JOIN LATERAL
          (SELECT FROM jobs WHERE state = 'queued' AND lane_id = lane.id LIMIT @most) j ON true LIMIT @most) c)
     + (SELECT count(*) FROM (SELECT FROM unnest(l.lanes) AS lane(id) JOIN LATERAL
          (SELECT FROM jobs WHERE state IN ('blocked', 'scheduled', 'waiting') AND state = 'scheduled' AND lane_id = lane.id LIMIT @most) j ON true LIMIT @most) c) AS waiting,
       (SELECT count(*) FROM (SELECT FROM jobs WHERE state = 'running' AND lane_id = ANY(l.lanes) LIMIT @most) c) AS running,
       (SELECT count(*) FROM (SELECT FROM dead_letters d WHERE d.tenant_id = w.tenant_id AND d.queue = q.name LIMIT @most) c) AS dead_letter
FROM webhooks AS w
JOIN queues AS q ON q.tenant_id = w.tenant_id AND q.name = @prefix || w.name
CROSS JOIN LATERAL (
  SELECT ARRAY(SELECT id FROM lanes WHERE lanes.tenant_id = w.tenant_id AND lanes.queue = q.name) AS lanes
) AS l
WHERE w.tenant_id = @tenant_id AND w.deleted_at IS NULL AND w.name > @after AND (@only::text = '' OR w.name = @only)
ORDER BY w.name
LIMIT @size`

type row struct {
	Name          string
	URL           string
	Events        []string
	Queue         *string
	Type          *string
	Tag           *string
	Thresholds    *api.Thresholds
	Label         *string
	Paused        bool
	PreviousUntil *time.Time
	LastAt        *time.Time
	LastStatus    *int
	LastError     *string
	CreatedAt     time.Time
	UpdatedAt     time.Time
	Waiting       int64
	Running       int64
	DeadLetter    int64
}

func (r *row) webhook() api.Webhook {
	shown := api.Webhook{
		Name: r.Name, URL: r.URL, Events: r.Events, Filter: api.WebhookFilter{Queue: r.Queue, Type: r.Type, Tag: r.Tag},
		Thresholds: r.Thresholds.InForce(), Paused: r.Paused, Label: r.Label,
		Queue: api.WebhookQueue(r.Name), CreatedAt: api.At(r.CreatedAt), UpdatedAt: api.At(r.UpdatedAt),
		Deliveries: api.WebhookDeliveries{
			Waiting: min(r.Waiting, api.MaxDepthCount), Running: min(r.Running, api.MaxDepthCount), DeadLetter: min(r.DeadLetter, api.MaxDepthCount),
			LastAt: api.AtOrNil(r.LastAt), LastStatus: r.LastStatus, LastError: r.LastError,
		},
	}
	if r.PreviousUntil != nil && r.PreviousUntil.After(time.Now()) {
		shown.PreviousSecretUntil = api.AtOrNil(r.PreviousUntil)
	}
	return shown
}

// Webhooks lists a tenant's webhooks by name, after one of them.
func (h *Hooks) Webhooks(ctx context.Context, owner tenant.ID, after string, size int) ([]api.Webhook, error) {
	return h.webhooks(store.WithClass(ctx, store.ClassLists), owner, after, "", size)
}

const webhookThereSQL = `SELECT FROM webhooks WHERE tenant_id = @tenant_id AND name = @name AND deleted_at IS NULL`

// CheckWebhook gives ErrNotFound for a webhook that is not there. It counts no deliveries.
func (h *Hooks) CheckWebhook(ctx context.Context, owner tenant.ID, name string) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	noColumn := func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }
	found, err := store.Query(ctx, h.Store, noColumn, webhookThereSQL, store.Args{"tenant_id": owner, "name": name})
	switch {
	case err != nil:
		return fmt.Errorf("webhook: check: %w", store.NotApplied(err))
	case len(found) == 0:
		return store.ErrNotFound
	}
	return nil
}

// Webhook gives one of a tenant's webhooks; ErrNotFound where there is none.
func (h *Hooks) Webhook(ctx context.Context, owner tenant.ID, name string) (api.Webhook, error) {
	found, err := h.webhooks(store.WithClass(ctx, store.ClassSubmits), owner, "", name, 1)
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return api.Webhook{}, err
	}
	return found[0], nil
}

func (h *Hooks) webhooks(ctx context.Context, owner tenant.ID, after, only string, size int) ([]api.Webhook, error) {
	rows, err := store.Query(ctx, h.Store, pgx.RowToAddrOfStructByName[row], webhooksSQL, store.Args{
		"tenant_id": owner, "after": after, "only": only, "size": size, "prefix": api.WebhookQueue(""), "most": api.MaxDepthCount,
	})
	if err != nil {
		return nil, fmt.Errorf("webhook: list: %w", store.NotApplied(err))
	}
	shown := make([]api.Webhook, len(rows))
	for i := range rows {
		shown[i] = rows[i].webhook()
	}
	return shown, nil
}

// A call that got no answer has no status. Calls of a paused webhook do not fail.
const failingSQL = `
SELECT w.name, w.last_status, w.last_error
FROM webhooks AS w JOIN queues AS q ON q.tenant_id = w.tenant_id AND q.name = @prefix || w.name
WHERE w.tenant_id = @tenant_id AND w.deleted_at IS NULL AND NOT q.paused
  AND w.last_at IS NOT NULL AND COALESCE(w.last_status, 0) NOT BETWEEN 200 AND 299
ORDER BY w.name`

// Failing is a webhook whose last call was not answered with 2xx.
type Failing struct {
	Name       string
	LastStatus *int
	LastError  *string
}

// Failing lists a tenant's webhooks whose last call was not answered with 2xx.
func (h *Hooks) Failing(ctx context.Context, owner tenant.ID) ([]Failing, error) {
	found, err := store.Query(store.WithClass(ctx, store.ClassLists), h.Store, pgx.RowToStructByName[Failing], failingSQL, store.Args{"tenant_id": owner, "prefix": api.WebhookQueue("")})
	if err != nil {
		return nil, fmt.Errorf("webhook: failing: %w", store.NotApplied(err))
	}
	return found, nil
}
