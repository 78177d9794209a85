package caps

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// A change of limits that adds a cap makes the count unsettled: jobs may have been stored without
// it. Where there was a cap before, of any height, all jobs were counted, and nothing is to do. The
// limits before are read under locks that are held until the change commits.

// AddedCaps gives the counters for which a change adds a cap.
type AddedCaps func(ctx context.Context, tx pgx.Tx) (Counter, error)

// ChangeLimits changes limits, and in the same commit makes the counts unsettled for which it adds
// a cap, among those in scope. It records the event if a row changed.
func ChangeLimits[T any](
	ctx context.Context, s *store.Store, row pgx.RowToFunc[T], sql string, args, scope store.Args, brings AddedCaps, done audit.Event,
) (changed []T, err error) {
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		changed, err = ChangeLimitsIn(ctx, tx, row, sql, args, scope, brings, done)
		return err
	})
	return changed, err
}

// ChangeLimitsIn is ChangeLimits in a transaction.
func ChangeLimitsIn[T any](
	ctx context.Context, tx pgx.Tx, row pgx.RowToFunc[T], sql string, args, scope store.Args, brings AddedCaps, done audit.Event,
) ([]T, error) {
	counters, err := brings(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	changed, err := pgx.CollectRows(rows, row)
	if err != nil {
		return nil, err
	}
	if rows.CommandTag().RowsAffected() > 0 {
		if err := audit.Record(ctx, tx, done); err != nil {
			return nil, err
		}
	}
	if counters == 0 {
		return changed, nil
	}
	scope["counters"] = counters.bits()
	_, err = tx.Exec(ctx, unsettleSQL, scope)
	return changed, err
}
