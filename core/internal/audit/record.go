package audit

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Actor is the caller of an action, for the audit log.
type Actor struct {
	Kind  string
	KeyID string
	// User is the user that the key is bound to, "" for none.
	User string
}

type actorKey struct{}

// WithActor sets the actor of the calls with this context. Calls without it are the engine's own,
// and are not recorded: a batch of a redrive was recorded when the redrive was created.
func WithActor(ctx context.Context, actor Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// WithoutActor makes the calls with this context the engine's own: what it does was recorded elsewhere.
func WithoutActor(ctx context.Context) context.Context {
	return context.WithValue(ctx, actorKey{}, nil)
}

// Event is an action. A nil tenant means none, an empty object that the detail names it.
type Event struct {
	Tenant *tenant.ID
	Action string
	Object string
	// Detail must not hold a secret: all who may manage the tenant read it.
	Detail map[string]any
}

const recordSQL = `
INSERT INTO audit_log (id, tenant_id, actor_kind, key_id, user_id, action, object, detail, at)
VALUES (@id, @tenant_id, @kind, @key_id, @user_id, @action, @object, @detail, statement_timestamp())`

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Record appends an event to the audit log, in the transaction of the action.
func Record(ctx context.Context, tx execer, done Event) error {
	actor, named := ctx.Value(actorKey{}).(Actor)
	if !named {
		return nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	if done.Detail == nil {
		done.Detail = map[string]any{}
	}
	_, err = tx.Exec(ctx, recordSQL, store.Args{
		"id": id, "tenant_id": done.Tenant, "kind": actor.Kind, "key_id": store.NullIfEmpty(actor.KeyID), "user_id": store.NullIfEmpty(actor.User),
		"action": done.Action, "object": store.NullIfEmpty(done.Object), "detail": string(store.JSON(done.Detail)),
	})
	return err
}

// Recorded runs one statement on rows of a tenant, or with tenant.Platform of the directory, and records the event of its rows in the same commit; a nil event is
// not recorded.
func Recorded[T any](ctx context.Context, s *store.Store, owner tenant.ID, row pgx.RowToFunc[T], sql string, args store.Args, event func([]T) *Event) (made []T, err error) {
	err = s.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, args)
		if err != nil {
			return err
		}
		if made, err = pgx.CollectRows(rows, row); err != nil {
			return err
		}
		if done := event(made); done != nil {
			return Record(ctx, tx, *done)
		}
		return nil
	})
	return made, err
}

// RecordJobs records an action on jobs, of which there may be none.
func RecordJobs(ctx context.Context, tx execer, owner tenant.ID, action string, ids []uuid.UUID) error {
	switch len(ids) {
	case 0:
		return nil
	case 1:
		return Record(ctx, tx, Event{Tenant: &owner, Action: action, Object: ids[0].String()})
	}
	return Record(ctx, tx, Event{Tenant: &owner, Action: action, Detail: map[string]any{"count": len(ids), "ids": ids}})
}
