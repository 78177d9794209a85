package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// lockClass keeps the advisory locks of different duties apart.
type lockClass string

const (
	lockSubmit     lockClass = "submit"     // a tenant's keyed or capped submits, one at a time
	lockClaim      lockClass = "claim"      // a tenant's claims under a running cap, one at a time
	lockLane       lockClass = "lane"       // the birth of a tenant's lanes
	lockPartitions lockClass = "partitions" // one core makes partitions
	lockRemoval    lockClass = "removal"    // one core removes them
	lockCheck      lockClass = "check"      // one core compares counts with the jobs
)

// lockKey is the 64-bit key of an advisory lock. Two keys that happen to be equal
// cost a wait, nothing else.
func lockKey(class lockClass, id tenant.ID) int64 {
	sum := sha256.Sum256(append([]byte("forgequeue/"+class+"/"), id[:]...))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits will do
}

// lockKeys gives the keys for several tenants in the one order in which every
// core takes them, so that two can never wait for each other.
func lockKeys(class lockClass, ids []tenant.ID) []int64 {
	keys := make([]int64, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, lockKey(class, id))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// advisoryLockSQL is held to the end of the transaction.
const advisoryLockSQL = `SELECT pg_advisory_xact_lock(@key)`

// tryHoldSQL takes a lock to the end of the transaction if it is free.
const tryHoldSQL = `SELECT pg_try_advisory_xact_lock(@lock)`
