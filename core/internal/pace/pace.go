// Package pace says how often polls of PostgreSQL run.
package pace

import (
	"math/rand/v2"
	"time"
)

const (
	// share is the share of its time that a poll may spend in PostgreSQL: one part in share.
	share = 20
	// longest bounds a pause: one long statement does not predict the next, PostgreSQL may have stalled.
	longest = 10 * time.Second
)

// After is the pause that limits a poll that took since begun to its share of the time.
func After(begun time.Time) time.Duration {
	return min((share-1)*time.Since(begun), longest)
}

// Jittered is up to a fifth shorter, so that cores do not poll at the same time.
func Jittered(wait time.Duration) time.Duration {
	return wait - time.Duration(rand.Int64N(int64(wait/5))) //nolint:gosec // spreads cores, guards nothing
}
