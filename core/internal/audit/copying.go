package audit

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Copying runs write in a transaction that holds the lock of the copies in this cell. It records nothing: the home
// cell has the events.
func Copying(ctx context.Context, s *store.Store, write func(context.Context, pgx.Tx) error) error {
	ctx = withoutActor(store.WithClass(ctx, store.ClassSubmits))
	return s.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": s.LockKey(store.LockDirectory, tenant.ID{})}); err != nil {
			return err
		}
		return write(ctx, tx)
	})
}
