package jobs

import (
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/job"
)

// Change is what a commit did to one job. Package publish tells it to whom it concerns.
type Change struct {
	ID uuid.UUID
	// Event is what happened to the job, Verdict its effect.
	Event   job.Event
	Verdict job.Verdict
	// Ready has the job's lane, and where it is queued its position.
	Ready Ready
	// Late is the time from the end of a lease to its reap.
	Late time.Duration
	// Attempt is for its log line and span; nil if attempts are not logged, or none ended.
	Attempt *EndedAttempt
	// Statistic is for the stats; zero where nothing ended.
	Statistic Statistic

	// leaseEnded is the end of a reaped lease.
	leaseEnded time.Time
}

// change is the transition as others are told of it.
func (s *transition) change(event job.Event) Change {
	made := Change{ID: s.row.ID, Event: event, Verdict: s.verdict, Ready: Ready{Lane: s.row.LaneID}, Statistic: s.statistic()}
	if s.verdict.State == job.Queued && !s.toGate() {
		// its ready_at will be the next statement's time: not before this one's
		made.Ready.Priority, made.Ready.At = s.row.Priority, s.row.Now
	}
	return made
}
