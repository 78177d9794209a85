package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// LockClass separates the advisory locks of different operations.
type LockClass string

// The operations under a lock.
const (
	LockSubmit     LockClass = "submit"     // a tenant's keyed or capped submits, serialised
	LockClaim      LockClass = "claim"      // a tenant's claims under a running cap, serialised
	LockGate       LockClass = "gate"       // a tenant's gates by key, see package gate
	LockLane       LockClass = "lane"       // the creation of a tenant's lanes
	LockPartitions LockClass = "partitions" // one core creates partitions
	LockRemoval    LockClass = "removal"    // one core removes them
	LockCheck      LockClass = "check"      // one core compares counts with the jobs
	LockLedger     LockClass = "ledger"     // one core closes a day
	LockSchedules  LockClass = "schedules"  // the creation of a tenant's schedules
	LockAPIKeys    LockClass = "api-keys"   // changes of a tenant's keys
	LockMove       LockClass = "move"       // one command moves a tenant
)

// LockKey is the 64-bit key of an advisory lock. A collision costs a wait, nothing else. Advisory
// locks are of a database, and cells may be schemas of one: the keys have the cell's name, which is
// empty for the home cell and for the only database.
func (s *Store) LockKey(class LockClass, id tenant.ID) int64 {
	sum := sha256.Sum256(append([]byte("forgequeue/"+s.cell+"/"+string(class)+"/"), id[:]...))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits will do
}

// LockKeys gives the keys of several tenants in the one order in which every core takes them, so
// that two never deadlock.
func (s *Store) LockKeys(class LockClass, ids []tenant.ID) []int64 {
	keys := make([]int64, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, s.LockKey(class, id))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

const (
	trySessionLockSQL = `SELECT pg_try_advisory_lock(@key)`
	unlockSessionSQL  = `SELECT pg_advisory_unlock(@key)`
)

// WithSessionLock runs work under a lock of a session, which is open for that alone, and in no transaction. It does nothing
// where another session has the lock: mine is false.
func (s *Store) WithSessionLock(ctx context.Context, class LockClass, id tenant.ID, work func(*Conn) error) (mine bool, err error) {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release()
	key := Args{"key": s.LockKey(class, id)}
	if err := conn.QueryRow(ctx, trySessionLockSQL, key).Scan(&mine); err != nil || !mine {
		return false, Classify(err)
	}
	// if the lock cannot be released, the session is closed
	defer func() {
		if _, err := conn.Exec(context.WithoutCancel(ctx), unlockSessionSQL, key); err != nil {
			_ = conn.Conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	return true, work(conn)
}

// AdvisoryLockSQL is held to the end of the transaction.
const AdvisoryLockSQL = `SELECT pg_advisory_xact_lock(@key)`

// TryHoldSQL takes a lock to the end of the transaction if it is free.
const TryHoldSQL = `SELECT pg_try_advisory_xact_lock(@lock)`
