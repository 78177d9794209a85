package directory

import "errors"

// What can go wrong that a caller may act on, beside what package store has.
var (
	// ErrWorkerUnknown: the worker never registered, or is dead.
	ErrWorkerUnknown = errors.New("directory: worker unknown")
	// ErrExpiryPast: a key would have expired before it was made.
	ErrExpiryPast = errors.New("directory: expiry past")
	// ErrTooManyLanes: the tenant has as many (queue, tags) as it may.
	ErrTooManyLanes = errors.New("directory: too many lanes")
	// ErrTooManyQueues: the tenant has as many queues as it may.
	ErrTooManyQueues = errors.New("directory: too many queues")
	// ErrTooManyWorkers: the tenant, or the platform, has as many workers as it may.
	ErrTooManyWorkers = errors.New("directory: too many workers")
	// ErrUnknownPlan: a tenant names a plan that does not exist.
	ErrUnknownPlan = errors.New("directory: unknown plan")
)
