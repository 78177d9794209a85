package deadletter

import "errors"

// Errors that a caller may act on, besides those of package store.
var (
	// ErrNotDead: the job is not a dead letter.
	ErrNotDead = errors.New("deadletter: not a dead letter")
	// ErrDedupeConflict: a live job has the dead one's dedupe_key.
	ErrDedupeConflict = errors.New("deadletter: dedupe key taken")
	// ErrTooManyRedrives: the tenant has reached the bound of unfinished redrives.
	ErrTooManyRedrives = errors.New("deadletter: too many redrives")
	// ErrTooManyUserRedrives: the tenant has, or the user that the key is bound to has half of them.
	ErrTooManyUserRedrives = errors.New("deadletter: too many redrives of a user")
)
