package jobs

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Statistic is what the end of an attempt, or of a job, counts as in the stats.
type Statistic struct {
	Queue tenant.QueueKey
	// At is when it ended, Running how long the attempt ran; 0 where the job waited.
	At      time.Time
	Running time.Duration
	// FailedAttempt says that the attempt failed, or that its lease or its time ended.
	FailedAttempt bool
}

func (s *transition) statistic() Statistic {
	made := Statistic{Queue: tenant.QueueKey{Tenant: s.row.TenantID, Name: s.row.Queue}, At: s.row.Now}
	if s.row.LeaseID != nil && s.row.StartedAt != nil {
		made.Running = max(s.row.Now.Sub(*s.row.StartedAt), 0)
	}
	switch s.attemptKind {
	case "failed", "lease_expired", "timeout":
		made.FailedAttempt = true
	}
	return made
}

// statistic is that of a complete.
func (c *completed) statistic() Statistic {
	made := Statistic{Queue: tenant.QueueKey{Tenant: c.TenantID, Name: c.Queue}, At: c.FinishedAt}
	if c.StartedAt != nil {
		made.Running = max(c.FinishedAt.Sub(*c.StartedAt), 0)
	}
	return made
}

func (c *completed) change() Change {
	return Change{ID: c.ID, Event: job.Complete, Verdict: job.Verdict{State: job.Completed}, Ready: Ready{Lane: c.LaneID}, Statistic: c.statistic()}
}
