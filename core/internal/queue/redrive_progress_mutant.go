//go:build mutant_redrive_progress

package queue

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// A step commits, and is written down in a transaction of its own.
func (s *Store) stepWhole(ctx context.Context, random float64, work func(pgx.Tx) (RedriveStep, error)) (step RedriveStep, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		step, err = work(tx)
		return err
	})
	if err != nil || !step.Worked {
		return step, err
	}
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, progressSQL, step.progress(random))
		return err
	})
	return step, err
}
