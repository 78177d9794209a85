//go:build mutant_cap_outside

package queue

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// The count is read outside the transaction, before the lock.
func (s *Store) lockThenRead(ctx context.Context, tx pgx.Tx, locks pgx.StrictNamedArgs, keys []CountKey) (*tally, error) {
	rows, err := s.pool.Query(ctx, readUsageSQL, countArgs(keys))
	if err != nil {
		return nil, err
	}
	read, err := collectUsage(keys, rows)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, lockTenantsSQL, locks)
	return read, err
}
