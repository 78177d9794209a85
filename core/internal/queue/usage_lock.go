package queue

import (
	"context"
	"strconv"
	"time"

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
func (s *Store) lockAndRead(ctx context.Context, tx pgx.Tx, class lockClass, tenants []tenant.ID, keys []CountKey) (*tally, error) {
	if len(tenants) == 0 {
		return &tally{}, nil
	}
	locks := pgx.StrictNamedArgs{"locks": lockKeys(class, tenants)}
	if len(keys) > 0 {
		return s.lockThenRead(ctx, tx, locks, keys)
	}
	batch := &pgx.Batch{}
	batch.Queue(lockTimeoutSQL, pgx.StrictNamedArgs{"timeout": lockTimeout(ctx)})
	batch.Queue(lockTenantsSQL, locks)
	return &tally{}, tx.SendBatch(ctx, batch).Close()
}
