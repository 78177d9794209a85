package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// previousSecretKept is for how long calls are signed with the previous secret too after a rotation.
const previousSecretKept = 24 * time.Hour

const (
	lockWebhookSQL = `
SELECT created_at, deleted_at IS NOT NULL AS deleted FROM webhooks WHERE tenant_id = @tenant_id AND name = @name FOR UPDATE`

	countWebhooksSQL = `
SELECT count(*) FROM webhooks WHERE tenant_id = @tenant_id`

	putWebhookSQL = `
INSERT INTO webhooks (tenant_id, name, events, of_states, queue, type, tag, thresholds, label, created_at, updated_at)
VALUES (@tenant_id, @name, @events, @of_states, @queue, @type, @tag, @thresholds, @label, statement_timestamp(), statement_timestamp())
ON CONFLICT (tenant_id, name) DO UPDATE
SET events = EXCLUDED.events, of_states = EXCLUDED.of_states, queue = EXCLUDED.queue, type = EXCLUDED.type, tag = EXCLUDED.tag,
    thresholds = EXCLUDED.thresholds, label = EXCLUDED.label, updated_at = EXCLUDED.updated_at`

	// The secret stays, and so does one that is being rotated.
	putQueueSQL = `
INSERT INTO queues (tenant_id, name, mode, paused, push_url, push_secret, created_at, updated_at)
VALUES (@tenant_id, @system_queue, 'push', @paused, @url, @secret, statement_timestamp(), statement_timestamp())
ON CONFLICT (tenant_id, name) DO UPDATE
SET mode = 'push', paused = EXCLUDED.paused, push_url = EXCLUDED.push_url,
    push_secret = CASE WHEN @made THEN EXCLUDED.push_secret ELSE queues.push_secret END,
    push_secret_previous = CASE WHEN @made THEN NULL ELSE queues.push_secret_previous END,
    deleted_at = NULL, updated_at = EXCLUDED.updated_at`
)

type lockedWebhook struct {
	CreatedAt time.Time
	Deleted   bool
}

// PutWebhook makes a webhook with a sealed secret, or replaces its settings; then the secret stays. made says
// which. One whose deletion has not ended is refused with queue_not_empty, one above the bound with an invalid
// request.
func (h *Hooks) PutWebhook(ctx context.Context, owner tenant.ID, name string, request api.WebhookRequest, secret []byte) (made bool, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	err = h.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		// Serialised in a tenant, for the bound.
		if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": h.LockKey(store.LockLane, owner)}); err != nil {
			return err
		}
		found, err := lockWebhook(ctx, tx, owner, name)
		if err != nil {
			return err
		}
		if made = found == nil; made {
			err = checkBound(ctx, tx, owner)
		} else if found.Deleted {
			err = problem.New(problem.QueueNotEmpty, "The webhook "+name+" was deleted, and its deliveries are being removed. Try again in a few seconds, or use another name.").WithRetryAfter(time.Second)
		}
		if err != nil {
			return err
		}
		filter := store.OrElse(request.Filter, api.WebhookFilter{})
		batch := &pgx.Batch{}
		batch.Queue(putWebhookSQL, store.Args{
			"tenant_id": owner, "name": name, "events": request.Events, "of_states": slices.ContainsFunc(request.Events, api.IsAlert), "queue": filter.Queue, "type": filter.Type, "tag": filter.Tag, "label": request.Label,
			"thresholds": request.Thresholds,
		})
		batch.Queue(putQueueSQL, store.Args{
			"tenant_id": owner, "system_queue": api.WebhookQueue(name), "paused": request.Paused, "url": request.URL,
			"secret": secret, "made": made,
		})
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditWebhookPut, Object: name, Detail: map[string]any{
			"url": request.URL, "events": request.Events, "filter": filter, "thresholds": request.Thresholds.InForce(), "paused": request.Paused, "label": request.Label,
		}})
	})
	if err != nil {
		return false, fmt.Errorf("webhook: put: %w", err)
	}
	return made, nil
}

// lockWebhook gives nil where there is none.
func lockWebhook(ctx context.Context, tx pgx.Tx, owner tenant.ID, name string) (*lockedWebhook, error) {
	rows, err := tx.Query(ctx, lockWebhookSQL, store.Args{"tenant_id": owner, "name": name})
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[lockedWebhook])
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

func checkBound(ctx context.Context, tx pgx.Tx, owner tenant.ID) error {
	var n int
	if err := tx.QueryRow(ctx, countWebhooksSQL, store.Args{"tenant_id": owner}).Scan(&n); err != nil {
		return err
	}
	if n >= api.MaxWebhooks {
		return problem.Invalid(problem.FieldError{Field: "name", Message: fmt.Sprintf("the tenant has %d webhooks already, which is the maximum; delete one", n)})
	}
	return nil
}

// secretsSQL has the secret, and the one that receivers know: that from before the first rotation of a day.
//
//nolint:gosec // it holds no secret
const secretsSQL = `
SELECT push_secret, CASE WHEN push_secret_previous_until > statement_timestamp() THEN push_secret_previous ELSE push_secret END
FROM queues
WHERE tenant_id = @tenant_id AND name = @system_queue`

// rotateSecretSQL keeps the secret that receivers know: a second rotation within its day, which may be the repeat of
// one whose answer was lost, leaves it in its place.
//
//nolint:gosec // it holds no secret
const rotateSecretSQL = `
UPDATE queues
SET push_secret_previous = @known, push_secret_previous_until = statement_timestamp() + @kept::interval,
    push_secret = @secret, updated_at = statement_timestamp()
WHERE tenant_id = @tenant_id AND name = @system_queue`

// RotateSecret gives a webhook the sealed secret that next makes of its present one and of the one that receivers
// know; nil leaves it. Calls are signed with the known one too, for a day. ErrNotFound where there is no such webhook.
func (h *Hooks) RotateSecret(ctx context.Context, owner tenant.ID, name string, next func(present, known []byte) ([]byte, error)) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	args := store.Args{"tenant_id": owner, "system_queue": api.WebhookQueue(name)}
	err := h.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		found, err := lockWebhook(ctx, tx, owner, name)
		if err != nil {
			return err
		}
		if found == nil || found.Deleted {
			return store.ErrNotFound
		}
		var present, known []byte
		if err := tx.QueryRow(ctx, secretsSQL, args).Scan(&present, &known); err != nil {
			return err
		}
		secret, err := next(present, known)
		if err != nil || secret == nil {
			return err
		}
		if _, err := tx.Exec(ctx, rotateSecretSQL, store.Args{
			"tenant_id": owner, "system_queue": api.WebhookQueue(name), "secret": secret, "known": known, "kept": previousSecretKept,
		}); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditWebhookRotate, Object: name})
	})
	if err != nil {
		return fmt.Errorf("webhook: %s: %w", api.AuditWebhookRotate, err)
	}
	return nil
}

// deleteWebhookSQL is not the removal, see RemoveWebhookData.
const deleteWebhookSQL = `
WITH stopped AS (
  UPDATE queues SET paused = true, updated_at = statement_timestamp() WHERE tenant_id = @tenant_id AND name = @system_queue
)
UPDATE webhooks SET deleted_at = statement_timestamp(), updated_at = statement_timestamp() WHERE tenant_id = @tenant_id AND name = @name`

// DeleteWebhook ends a webhook: it gets no more events, and no more calls are begun. Its deliveries are
// removed by RemoveWebhookData. ErrNotFound where there is none.
func (h *Hooks) DeleteWebhook(ctx context.Context, owner tenant.ID, name string) error {
	return h.change(ctx, owner, name, api.AuditWebhookDelete, deleteWebhookSQL, store.Args{"name": name})
}

// RecordTest records in the audit log that a test delivery was asked for.
func (h *Hooks) RecordTest(ctx context.Context, owner tenant.ID, name string, id uuid.UUID) error {
	err := h.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditWebhookTest, Object: name, Detail: map[string]any{"job_id": id.String()}})
	})
	if err != nil {
		return fmt.Errorf("webhook: test: %w", err)
	}
	return nil
}

func (h *Hooks) change(ctx context.Context, owner tenant.ID, name, action, sql string, args store.Args) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	args["tenant_id"], args["system_queue"] = owner, api.WebhookQueue(name)
	err := h.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		found, err := lockWebhook(ctx, tx, owner, name)
		if err != nil {
			return err
		}
		if found == nil || found.Deleted {
			return store.ErrNotFound
		}
		if _, err := tx.Exec(ctx, sql, args); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: action, Object: name})
	})
	if err != nil {
		return fmt.Errorf("webhook: %s: %w", action, err)
	}
	return nil
}
