package directory

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/keys"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const (
	lockVersionSQL = `SELECT version FROM directory FOR UPDATE`
	setVersionSQL  = `UPDATE directory SET version = @version`
)

// Copied is the version up to which this cell has copied the directory.
func Copied(ctx context.Context, s *store.Store) (int64, error) {
	return one[int64](store.WithClass(ctx, store.ClassLists), s, versionSQL)
}

// Apply copies changes since a version, in one transaction. It does nothing where another core was first.
func Apply(ctx context.Context, s *store.Store, since int64, changes hop.DirectoryChanges) error {
	err := s.InTx(audit.WithoutActor(store.WithClass(ctx, store.ClassSubmits)), func(tx pgx.Tx) error {
		var copied int64
		if err := tx.QueryRow(ctx, lockVersionSQL).Scan(&copied); err != nil || copied != since {
			return err
		}
		if changes.Reset {
			if err := keys.ForgetCopies(ctx, tx); err != nil {
				return err
			}
		}
		// A tenant refers to its plan, a key to its tenant.
		for _, plan := range changes.Plans {
			if err := tenants.CopyPlan(ctx, tx, plan); err != nil {
				return err
			}
		}
		for i := range changes.Tenants {
			if err := tenants.Copy(ctx, tx, &changes.Tenants[i]); err != nil {
				return err
			}
		}
		if err := keys.Copy(ctx, tx, changes.Keys); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, setVersionSQL, store.Args{"version": changes.Version})
		return err
	})
	if err != nil {
		return fmt.Errorf("directory: copy: %w", err)
	}
	return nil
}
