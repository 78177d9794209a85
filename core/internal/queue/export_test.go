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

// SmallestJob is what decides whether a cap may be full.
const SmallestJob = smallestJob
