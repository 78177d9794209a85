package caps

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// lockTenantsSQL holds the locks to the end of the transaction. The previous holder has committed
// or rolled back.
const lockTenantsSQL = `SELECT pg_advisory_xact_lock(key) FROM unnest(@locks::bigint[]) AS key`

// LockTimeoutSQL ends the wait for the locks in time for an answer.
const LockTimeoutSQL = `SELECT set_config('lock_timeout', @timeout, true)`

type lockWait struct{}

// WithLockWait bounds the wait for a lock, of a duty that has other tenants to serve.
func WithLockWait(ctx context.Context, most time.Duration) context.Context {
	return context.WithValue(ctx, lockWait{}, most)
}

// QueueLockWait makes the bound of WithLockWait, where there is one, hold for all statements after it.
func QueueLockWait(ctx context.Context, batch *pgx.Batch) {
	if ctx.Value(lockWait{}) != nil {
		batch.Queue(LockTimeoutSQL, store.Args{"timeout": LockTimeout(ctx)})
	}
}

// LockTimeout is the time left to the request, in PostgreSQL's format, less a margin for the
// answer.
func LockTimeout(ctx context.Context) string {
	const margin, most = 200 * time.Millisecond, 10 * time.Second
	left := most
	if short, ok := ctx.Value(lockWait{}).(time.Duration); ok {
		left = short
	}
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline)-margin)
	}
	return strconv.FormatInt(max(left.Milliseconds(), 1), 10) + "ms"
}

// LockAndRead takes the tenants' locks, then reads the counts that they guard, in one round trip.
// Without tenants it does nothing.
func (s *Counts) LockAndRead(ctx context.Context, tx pgx.Tx, class store.LockClass, tenants []tenant.ID, keys []CountKey) (*Tally, error) {
	batch := &pgx.Batch{}
	tally := s.QueueLockAndRead(ctx, batch, class, tenants, keys)
	if batch.Len() == 0 {
		return tally, nil
	}
	return tally, tx.SendBatch(ctx, batch).Close()
}

// QueueLockAndRead is LockAndRead as part of a batch: the tally has its counts once that has run.
// They are read in a later statement than the one that waits for the locks: a statement's snapshot
// is older than its waits, and would not include the count of the lock's last holder.
func (s *Counts) QueueLockAndRead(ctx context.Context, batch *pgx.Batch, class store.LockClass, tenants []tenant.ID, keys []CountKey) *Tally {
	tally := &Tally{}
	if len(tenants) == 0 {
		return tally
	}
	batch.Queue(LockTimeoutSQL, store.Args{"timeout": LockTimeout(ctx)})
	batch.Queue(lockTenantsSQL, store.Args{"locks": s.LockKeys(class, tenants)})
	if len(keys) > 0 {
		QueueRead(batch, tally, keys)
	}
	return tally
}
