package queue

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/store"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Actor is who asks for an action, for the audit log.
type Actor struct {
	Kind  string
	KeyID string
	// User is the user that the key is bound to, "" for none.
	User string
}

type actorKey struct{}

// WithActor says in whose name the calls with this context are made. Without it
// they are the engine's own, and are not noted: a batch of a redrive was noted when
// the redrive was asked for.
func WithActor(ctx context.Context, actor Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, actor)
}

// deed is what somebody did. A nil tenant is for what is no tenant's, an empty object
// for what the detail names.
type deed struct {
	tenant *tenant.ID
	action string
	object string
	// detail must not hold a secret: whoever may manage the tenant reads it.
	detail map[string]any
}

const noteSQL = `
INSERT INTO audit_log (id, tenant_id, actor_kind, key_id, user_id, action, object, detail, at)
VALUES (@id, @tenant_id, @kind, @key_id, @user_id, @action, @object, @detail, statement_timestamp())`

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// note appends a deed to the audit log, in the transaction that does it.
func note(ctx context.Context, tx execer, done deed) error {
	actor, somebody := ctx.Value(actorKey{}).(Actor)
	if !somebody {
		return nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	if done.detail == nil {
		done.detail = map[string]any{}
	}
	_, err = tx.Exec(ctx, noteSQL, pgx.StrictNamedArgs{
		"id": id, "tenant_id": done.tenant, "kind": actor.Kind, "key_id": null.Text(actor.KeyID), "user_id": null.Text(actor.User),
		"action": done.action, "object": null.Text(done.object), "detail": string(store.JSON(done.detail)),
	})
	return err
}

// noted runs one statement, and notes in the same commit what its rows say was
// done: a nil deed is nothing.
func noted[T any](ctx context.Context, s *Store, row pgx.RowToFunc[T], sql string, args pgx.StrictNamedArgs, tell func([]T) *deed) (made []T, err error) {
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, args)
		if err != nil {
			return err
		}
		if made, err = pgx.CollectRows(rows, row); err != nil {
			return err
		}
		if done := tell(made); done != nil {
			return note(ctx, tx, *done)
		}
		return nil
	})
	return made, err
}

// noteJobs notes what was done to jobs, of which there may be none.
func noteJobs(ctx context.Context, tx execer, owner tenant.ID, action string, ids []uuid.UUID) error {
	switch len(ids) {
	case 0:
		return nil
	case 1:
		return note(ctx, tx, deed{tenant: &owner, action: action, object: ids[0].String()})
	}
	return note(ctx, tx, deed{tenant: &owner, action: action, detail: map[string]any{"count": len(ids), "ids": ids}})
}
