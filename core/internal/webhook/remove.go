package webhook

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const deletedWebhooksSQL = `
SELECT tenant_id, name FROM webhooks WHERE deleted_at <= statement_timestamp() AND tenant_id <> ALL(` + store.MovingNowSQL + `) ORDER BY deleted_at LIMIT @most`

// Deleted is a webhook whose deliveries are to be removed.
type Deleted struct {
	TenantID tenant.ID
	Name     string
}

// DeletedWebhooks lists webhooks, of any tenants, whose deliveries are to be removed.
func (h *Hooks) DeletedWebhooks(ctx context.Context, most int) ([]Deleted, error) {
	found, err := store.Query(store.WithClass(ctx, store.ClassLists), h.Store, pgx.RowToStructByName[Deleted], deletedWebhooksSQL, store.Args{"most": most})
	if err != nil {
		return nil, fmt.Errorf("webhook: deleted: %w", store.NotApplied(err))
	}
	return found, nil
}

const lanesSQL = `
SELECT id FROM lanes WHERE tenant_id = @tenant_id AND queue = @system_queue`

// removeSQL are the statements that remove a batch of a webhook's deliveries. One has nothing to do before the
// next begins. Holders of running deliveries lose their lease. Events without a delivery are left: they are
// dropped as those of an unknown webhook.
var removeSQL = []string{ //nolint:gochecknoglobals // a constant in all but the keyword
	`
WITH ended AS (
  DELETE FROM jobs
  WHERE id = ANY(ARRAY(SELECT id FROM jobs WHERE id = ANY(ARRAY(
    SELECT id FROM (
      (SELECT j.id FROM unnest(@lanes::bigint[]) AS l(id) CROSS JOIN LATERAL
        (SELECT jobs.id FROM jobs WHERE state = 'queued' AND lane_id = l.id LIMIT @batch) AS j LIMIT @batch)
      UNION ALL
      (SELECT j.id FROM unnest(@lanes::bigint[]) AS l(id) CROSS JOIN LATERAL
        (SELECT jobs.id FROM jobs WHERE state IN ('blocked', 'scheduled', 'waiting') AND lane_id = l.id LIMIT @batch) AS j LIMIT @batch)
      UNION ALL
      (SELECT jobs.id FROM jobs WHERE state = 'running' AND lane_id = ANY(@lanes::bigint[]) LIMIT @batch)
    ) AS live LIMIT @batch)) ORDER BY id FOR UPDATE))
  RETURNING id, tenant_id, user_id, queue, type, counted
), ` + caps.LeaveCountsSQL + `
SELECT id FROM ended`,
	`
DELETE FROM dead_letters
WHERE id = ANY(ARRAY(SELECT id FROM dead_letters WHERE tenant_id = @tenant_id AND queue = @system_queue ORDER BY id LIMIT @batch FOR UPDATE))`,
}

// The queue goes with the webhook. Its lanes are retired as unused ones.
const forgetWebhookSQL = `
WITH settings AS (
  DELETE FROM queues WHERE tenant_id = @tenant_id AND name = @system_queue
), states AS (
  DELETE FROM alerts WHERE tenant_id = @tenant_id AND webhook = @name -- a new webhook of this name gets them again
)
DELETE FROM webhooks WHERE tenant_id = @tenant_id AND name = @name AND deleted_at IS NOT NULL`

// RemoveWebhookData removes at most about batch deliveries of a deleted webhook, and the webhook with the
// last of them. more says that some are left.
func (h *Hooks) RemoveWebhookData(ctx context.Context, deleted Deleted, batch int) (more bool, err error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	queueName := api.WebhookQueue(deleted.Name)
	err = h.InTenantTx(ctx, deleted.TenantID, func(tx pgx.Tx) error {
		// No event becomes a delivery meanwhile: who stores one has locked the webhook.
		found, err := lockWebhook(ctx, tx, deleted.TenantID, deleted.Name)
		if err != nil || found == nil || !found.Deleted {
			return err
		}
		rows, err := tx.Query(ctx, lanesSQL, store.Args{"tenant_id": deleted.TenantID, "system_queue": queueName})
		if err != nil {
			return err
		}
		lanes, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		for i, args := range []store.Args{
			{"lanes": lanes, "batch": batch},
			{"tenant_id": deleted.TenantID, "system_queue": queueName, "batch": batch},
		} {
			removed, err := tx.Exec(ctx, removeSQL[i], args)
			if err != nil {
				return err
			}
			if removed.RowsAffected() > 0 {
				more = true
				return nil
			}
		}
		_, err = tx.Exec(ctx, forgetWebhookSQL, store.Args{"tenant_id": deleted.TenantID, "name": deleted.Name, "system_queue": queueName})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("webhook: remove: %w", err)
	}
	return more, nil
}
