//go:build !mutant_redrive_progress

package queue

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// stepWhole makes a step and writes it down in one transaction.
func (s *Store) stepWhole(ctx context.Context, random float64, work func(pgx.Tx) (RedriveStep, error)) (step RedriveStep, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if step, err = work(tx); err != nil || !step.Worked {
			return err
		}
		_, err = tx.Exec(ctx, progressSQL, step.progress(random))
		return err
	})
	return step, err
}
