// Package pace says how often polls of PostgreSQL run, and how much a group commit takes.
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

// A group commit, of submits, claims, outcomes or heartbeats.
const (
	// FlushJobs bounds one commit: the best of the measured sizes, and the first request in it does not wait long for
	// the last.
	FlushJobs = 1000
	// FlushBytesPerJob is the size of a payload, result or checkpoint from which one job counts as more: a flush is then at
	// most about 8 MB.
	FlushBytesPerJob = 8 << 10
	// FlushWaiting is how many requests may wait for a flush; more are refused at once (D8).
	FlushWaiting = 20_000
	// FlushTimeout bounds a flush whose callers have all left.
	FlushTimeout = 10 * time.Second
)

// After is the pause that limits a poll that took since begun to its share of the time.
func After(begun time.Time) time.Duration {
	return min((share-1)*time.Since(begun), longest)
}

// Jittered is up to a fifth shorter, so that cores do not poll at the same time.
func Jittered(wait time.Duration) time.Duration {
	return wait - time.Duration(rand.Int64N(int64(wait/5))) //nolint:gosec // spreads cores, guards nothing
}
