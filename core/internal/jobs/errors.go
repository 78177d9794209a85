package jobs

import "errors"

// Errors that a caller may act on, besides those of package store.
var (
	// ErrLeaseLost: the lease is not, or no longer, the one that holds the job.
	ErrLeaseLost = errors.New("jobs: lease lost")
	// ErrOutcomeConflict: this lease already ended with another outcome.
	ErrOutcomeConflict = errors.New("jobs: another outcome is on record")
	// ErrTerminal: the job has already ended.
	ErrTerminal = errors.New("jobs: job has ended")
	// ErrLive: the job has not ended.
	ErrLive = errors.New("jobs: job is live")
)
