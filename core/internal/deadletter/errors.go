package deadletter

import "errors"

// What can go wrong that a caller may act on, beside what package store has.
var (
	// ErrNotDead: the job is not a dead letter.
	ErrNotDead = errors.New("deadletter: not a dead letter")
	// ErrDedupeConflict: a live job has the dead one's dedupe_key.
	ErrDedupeConflict = errors.New("deadletter: dedupe key taken")
	// ErrTooManyRedrives: the tenant has as many redrives under way as it may.
	ErrTooManyRedrives = errors.New("deadletter: too many redrives")
)
