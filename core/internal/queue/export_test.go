package queue

import "github.com/forgequeue/forgequeue/core/internal/tenant"

// SubmitLockKey is the advisory lock that a tenant's keyed submits take.
func SubmitLockKey(id tenant.ID) int64 { return lockKey(lockSubmit, id) }
