//go:build !mutant_count_beside_lock && !mutant_cap_outside

package queue

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// lockThenRead reads in a later statement than the one that waits for the locks: a
// statement's snapshot is older than its waits, and would not show what the
// lock's last holder has counted.
func (s *Store) lockThenRead(ctx context.Context, tx pgx.Tx, locks pgx.StrictNamedArgs, keys []CountKey) (_ *tally, err error) {
	batch := &pgx.Batch{}
	batch.Queue(lockTimeoutSQL, pgx.StrictNamedArgs{"timeout": lockTimeout(ctx)})
	batch.Queue(lockTenantsSQL, locks)
	batch.Queue(readUsageSQL, countArgs(keys))
	results := tx.SendBatch(ctx, batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	for range 2 {
		if _, err := results.Exec(); err != nil {
			return nil, err
		}
	}
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	return collectUsage(keys, rows)
}
