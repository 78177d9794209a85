package queue

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// lockTenantsSQL holds the locks to the end of the transaction. Whoever had one
// before has committed or is gone.
const lockTenantsSQL = `SELECT pg_advisory_xact_lock(key) FROM unnest(@locks::bigint[]) AS key`

// lockTimeoutSQL ends the wait for the locks in time to say so.
const lockTimeoutSQL = `SELECT set_config('lock_timeout', @timeout, true)`

// lockTimeout is the time left to the request, in PostgreSQL's spelling, less
// what the answer needs to get back.
func lockTimeout(ctx context.Context) string {
	const margin, most = 200 * time.Millisecond, 10 * time.Second
	left := most
	if deadline, ok := ctx.Deadline(); ok {
		left = min(most, time.Until(deadline)-margin)
	}
	return strconv.FormatInt(max(left.Milliseconds(), 1), 10) + "ms"
}

// lockAndRead takes the tenants' locks, then reads counts that they guard, in one
// round trip. Without tenants there is nothing to guard.
func (s *Store) lockAndRead(ctx context.Context, tx pgx.Tx, class store.LockClass, tenants []tenant.ID, keys []CountKey) (*tally, error) {
	if len(tenants) == 0 {
		return &tally{}, nil
	}
	locks := pgx.StrictNamedArgs{"locks": store.LockKeys(class, tenants)}
	if len(keys) > 0 {
		return s.lockThenRead(ctx, tx, locks, keys)
	}
	batch := &pgx.Batch{}
	batch.Queue(lockTimeoutSQL, pgx.StrictNamedArgs{"timeout": lockTimeout(ctx)})
	batch.Queue(lockTenantsSQL, locks)
	return &tally{}, tx.SendBatch(ctx, batch).Close()
}

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
