// Package alerts tells webhooks of states: one event when a state has held for its threshold, one when it has been over for
// long enough, none while it comes and goes. Each webhook has its own thresholds, so each has its own row of a state.
//
//	a core sees a state ──▶ Record, for all webhooks of the tenant ──▶ the change of the row and its event, one transaction
//
// What holds:
//
//   - All cores look. The rows of a tenant's webhooks are locked while its states are recorded, so each event is appended once.
//   - A state of which only one core knows, as of a breaker, is not over because another core does not see it: that it is
//     seen takes back that it is not, and it has to be unseen for a while.
//   - While no core looks, no event is made; the time counts.
package alerts

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Alerts has the statements.
type Alerts struct{ *store.Store }

// Sighting is a state that holds now.
type Sighting struct {
	// State is the kind of the event of its begin, Of and Name what has it; Name is empty for the tenant.
	State, Of, Name string
	// Held is for how long it has held already; nil counts from the first sighting.
	Held   *time.Duration
	Detail string
}

// forgotten is for how long a state without an event has to be unseen to begin again: the others of some looks.
const forgotten = 25 * time.Second

// askedSQL also gives those that no webhook tells of any more, so that their rows go.
const askedSQL = `
WITH RECURSIVE told AS ( -- from tenant to tenant by the index
  (SELECT tenant_id FROM alerts ORDER BY tenant_id LIMIT 1)
  UNION ALL
  SELECT next.tenant_id
  FROM told CROSS JOIN LATERAL (SELECT tenant_id FROM alerts WHERE tenant_id > told.tenant_id ORDER BY tenant_id LIMIT 1) AS next
)
SELECT tenant_id, array_agg(DISTINCT kind) FILTER (WHERE kind <> '') AS kinds
FROM (
  SELECT tenant_id, unnest(events) AS kind FROM webhooks WHERE of_states AND deleted_at IS NULL
  UNION ALL
  SELECT tenant_id, '' FROM told) AS asked
WHERE tenant_id <> ALL(` + store.MovingNowSQL + `)
GROUP BY tenant_id`

// Asked is a tenant whose webhooks tell of states, and the kinds of all their events.
type Asked struct {
	TenantID tenant.ID
	Kinds    []string
}

// For says whether any of the webhooks tells of a state.
func (a *Asked) For(state string) bool { return tells(a.Kinds, state) }

// tells says whether one of the kinds is of the begin or the end of a state.
func tells(kinds []string, state string) bool {
	return slices.Contains(kinds, state) || slices.Contains(kinds, api.AlertEnd(state))
}

// Asked lists the tenants that are told of states, or were.
func (a *Alerts) Asked(ctx context.Context) ([]Asked, error) {
	tenants, err := store.Query(store.WithClass(ctx, store.ClassLists), a.Store, pgx.RowToStructByName[Asked], askedSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("alerts: asked: %w", store.NotApplied(err))
	}
	return tenants, nil
}

const (
	// lockHooksSQL serialises what is recorded of a tenant.
	lockHooksSQL = `
SELECT name, events, queue, thresholds, statement_timestamp() AS now
FROM webhooks
WHERE tenant_id = @tenant_id AND deleted_at IS NULL AND of_states
  AND tenant_id <> ALL(` + store.MovingSQL + `)
ORDER BY name
FOR NO KEY UPDATE`

	readSQL = `
SELECT webhook, state, name, detail, began_at, gone_at, told FROM alerts WHERE tenant_id = @tenant_id`

	dropSQL = `
DELETE FROM alerts AS a USING unnest(@webhooks::text[], @states::text[], @names::text[]) AS d(webhook, state, name)
WHERE a.tenant_id = @tenant_id AND a.webhook = d.webhook AND a.state = d.state AND a.name = d.name`

	keepSQL = `
INSERT INTO alerts (tenant_id, webhook, state, name, detail, began_at, gone_at, told)
SELECT @tenant_id, * FROM unnest(@webhooks::text[], @states::text[], @names::text[], @details::text[], @begins::timestamptz[], @gone::timestamptz[], @told::boolean[])
ON CONFLICT (tenant_id, webhook, state, name) DO UPDATE SET detail = excluded.detail, began_at = excluded.began_at, gone_at = excluded.gone_at, told = excluded.told`

	appendSQL = `
INSERT INTO webhook_events (tenant_id, webhook, kind, finished_at, job)
SELECT @tenant_id, hook, kind, statement_timestamp(), alert FROM unnest(@webhooks::text[], @kinds::text[], @alerts::json[]) AS e(hook, kind, alert)`

	// forgetSQL removes the rows of tenants whose webhooks tell of no state.
	forgetSQL = `
DELETE FROM alerts
WHERE tenant_id = @tenant_id AND tenant_id <> ALL(` + store.MovingSQL + `)
  AND NOT EXISTS (SELECT FROM webhooks AS w WHERE w.tenant_id = @tenant_id AND w.deleted_at IS NULL AND of_states)`
)

// hook is a webhook that tells of states.
type hook struct {
	Name       string
	Events     []string
	Queue      *string
	Thresholds *api.Thresholds
	Now        time.Time
}

// Record records which states of a tenant hold now, and appends the events of those that begin or end by it: all that are
// not seen do not hold, as far as this core knows. It gives how many events there are.
func (a *Alerts) Record(ctx context.Context, owner tenant.ID, seen []Sighting) (appended int, err error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	err = a.InTx(ctx, func(tx pgx.Tx) error {
		appended = 0
		rows, err := tx.Query(ctx, lockHooksSQL, store.Args{"tenant_id": owner})
		if err != nil {
			return err
		}
		hooks, err := pgx.CollectRows(rows, pgx.RowToStructByName[hook])
		if err != nil {
			return err
		}
		if len(hooks) == 0 {
			_, err := tx.Exec(ctx, forgetSQL, store.Args{"tenant_id": owner})
			return err
		}
		rows, err = tx.Query(ctx, readSQL, store.Args{"tenant_id": owner})
		if err != nil {
			return err
		}
		stored, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[row])
		if err != nil {
			return err
		}
		changes := compare(hooks, stored, seen)
		appended = len(changes.kinds)
		if batch := changes.batch(owner); batch.Len() > 0 {
			return tx.SendBatch(ctx, batch).Close()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("alerts: record: %w", err)
	}
	return appended, nil
}
