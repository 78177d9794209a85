package queue

import (
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// SubmitLockKey is the advisory lock that a tenant's keyed submits take.
func SubmitLockKey(id tenant.ID) int64 { return lockKey(lockSubmit, id) }

// SetCallTime changes the bound on calls whose context has none.
func (s *Store) SetCallTime(d time.Duration) { s.callTime = d }

// TokenBefore is the page token for what is older than a job.
func TokenBefore(before uuid.UUID, filter api.JobFilter) string { return *sealToken(before, filter) }

// Allowed, After and Burst are the rule of a rate.
func (r *Rate) Allowed(now, due time.Time) int64 { return r.allowed(now, due) }

// After is see Allowed.
func (r *Rate) After(now, due time.Time, n int64) time.Time { return r.after(now, due, n) }

// Burst is see Allowed.
func (r *Rate) Burst() int64 { return r.burst() }
