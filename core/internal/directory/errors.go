package directory

import "errors"

// Errors that a caller may act on, besides those of package store.
var (
	// ErrWorkerUnknown: the worker never registered, or is dead.
	ErrWorkerUnknown = errors.New("directory: worker unknown")
	// ErrExpiryPast: a new key's expiry is in the past.
	ErrExpiryPast = errors.New("directory: expiry past")
	// ErrTooManyLanes: the tenant has reached its bound of (queue, tags).
	ErrTooManyLanes = errors.New("directory: too many lanes")
	// ErrTooManyQueues: the tenant has reached its bound of queues.
	ErrTooManyQueues = errors.New("directory: too many queues")
	// ErrTooManyWorkers: the tenant, or the platform, has reached its bound of workers.
	ErrTooManyWorkers = errors.New("directory: too many workers")
	// ErrUnknownPlan: a tenant names a plan that does not exist.
	ErrUnknownPlan = errors.New("directory: unknown plan")
	// ErrNotAdmin: the key that asks for a change of keys has ended, or lacks the scope admin.
	ErrNotAdmin = errors.New("directory: not an admin")
	// ErrOwnKey: a key asks for its own revocation.
	ErrOwnKey = errors.New("directory: own key")
	// ErrTooManyKeys: the tenant has reached its bound of keys.
	ErrTooManyKeys = errors.New("directory: too many keys")
	// ErrTenantDeleted: the tenant is deleted, or is being deleted.
	ErrTenantDeleted = errors.New("directory: tenant deleted")
)
