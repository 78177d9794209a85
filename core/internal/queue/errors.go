package queue

import "errors"

// What can go wrong that a caller may act on, beside what package store has.
var (
	// ErrLeaseLost: the lease is not, or no longer, the one that holds the job.
	ErrLeaseLost = errors.New("queue: lease lost")
	// ErrOutcomeConflict: this lease already ended with another outcome.
	ErrOutcomeConflict = errors.New("queue: another outcome is on record")
	// ErrWorkerUnknown: the worker never registered, or is dead.
	ErrWorkerUnknown = errors.New("queue: worker unknown")
	// ErrIdempotencyMismatch: the key was used with another body.
	ErrIdempotencyMismatch = errors.New("queue: idempotency key used with another body")
	// ErrIdempotencyInFlight: the first request with this key has not ended in time.
	ErrIdempotencyInFlight = errors.New("queue: request with this idempotency key under way")
	// ErrDeadlinePast: the job's deadline lies in the past.
	ErrDeadlinePast = errors.New("queue: deadline past")
	// ErrExpiryPast: a key would have expired before it was made.
	ErrExpiryPast = errors.New("queue: expiry past")
	// ErrTooManyLanes: the tenant has as many (queue, tags) as it may.
	ErrTooManyLanes = errors.New("queue: too many lanes")
	// ErrTooManyQueues: the tenant has as many queues as it may.
	ErrTooManyQueues = errors.New("queue: too many queues")
	// ErrTooManyWorkers: the tenant, or the platform, has as many workers as it may.
	ErrTooManyWorkers = errors.New("queue: too many workers")
	// ErrUnknownPlan: a tenant names a plan that does not exist.
	ErrUnknownPlan = errors.New("queue: unknown plan")
	// ErrTerminal: the job has ended otherwise.
	ErrTerminal = errors.New("queue: job has ended")
	// ErrNotDead: the job is not a dead letter.
	ErrNotDead = errors.New("queue: not a dead letter")
	// ErrDedupeConflict: a live job has the dead one's dedupe_key.
	ErrDedupeConflict = errors.New("queue: dedupe key taken")
	// ErrPageToken: the token is not one of this list's.
	ErrPageToken = errors.New("queue: malformed page token")
	// ErrTooManyRedrives: the tenant has as many redrives under way as it may.
	ErrTooManyRedrives = errors.New("queue: too many redrives")
)
