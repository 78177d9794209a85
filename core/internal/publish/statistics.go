package publish

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Recorder counts for the stats what is published, until it is appended to the tables.
type Recorder struct {
	store *cell.Cell
	jobs  *stats.JobRecorder
	uses  *stats.LimitRecorder
	lost  prometheus.Counter
}

// NewRecorder makes one. backlog says whether more jobs of a queue wait, lost counts what could not be appended.
func NewRecorder(store *cell.Cell, backlog func(tenant.QueueKey) bool, lost prometheus.Counter) *Recorder {
	return &Recorder{store: store, jobs: stats.NewJobRecorder(backlog), uses: stats.NewLimitRecorder(), lost: lost}
}

// Rates are how fast the jobs start that are published as claimed.
func (r *Recorder) Rates() *stats.Rates { return r.jobs.Rates }

// Record counts events.
func (r *Recorder) Record(events []stats.Event) { r.jobs.Record(events...) }

// Append appends what was counted since the last time; appended says that there was something.
func (r *Recorder) Append(ctx context.Context) (appended bool, err error) {
	jobs, lostEvents, jobsErr := r.jobs.Append(ctx, r.store.Stats.AppendStats)
	uses, lostUses, usesErr := r.uses.Append(ctx, r.store.Stats.AppendLimitStats)
	r.lost.Add(float64(lostEvents + lostUses))
	return jobs || uses, errors.Join(jobsErr, usesErr)
}

// CountUses notes the use of tenants' caps. Of users it is that of the one with the most, and by name who was refused.
func (r *Recorder) CountUses(uses []caps.Use) {
	noted := make([]stats.LimitUse, 0, len(uses))
	for i := range uses {
		one := &uses[i]
		if one.Counter&(caps.RunningAll|caps.RunningType) != 0 {
			continue
		}
		use := stats.LimitUse{
			Tenant: one.Tenant, Limit: one.Counter.String(), Name: one.Name, At: one.At,
			LimitCounts: stats.LimitCounts{Used: one.Used, Allowed: one.Limit, Refused: one.Refused},
		}
		if one.Counter&(caps.ActiveUser|caps.RunningUser) == 0 || one.Refused > 0 {
			noted = append(noted, use)
		}
		if one.Counter&(caps.ActiveUser|caps.RunningUser) != 0 {
			use.Name = ""
			noted = append(noted, use)
		}
	}
	r.uses.Record(noted...)
}

// RecordUses notes what a gateway has admitted and refused of a tenant's requests.
func (r *Recorder) RecordUses(owner tenant.ID, uses []hop.LimitUse) {
	noted := make([]stats.LimitUse, len(uses))
	for i, one := range uses {
		noted[i] = stats.LimitUse{
			Tenant: owner, Limit: one.Limit, Name: one.Name,
			LimitCounts: stats.LimitCounts{Used: one.Used, Allowed: one.Allowed, Refused: one.Refused},
		}
	}
	r.uses.Record(noted...)
}

// eventOf is the end of an attempt, or of a job; state is the job's new one.
func eventOf(ended *jobs.Statistic, state job.State) stats.Event {
	event := stats.Event{QueueKey: ended.Queue, At: ended.At, Counts: stats.Counts{Running: ended.Running}}
	if ended.FailedAttempt {
		event.FailedAttempts = 1
	}
	switch state { //nolint:exhaustive // the others are no ends
	case job.Completed:
		event.Completed = 1
	case job.DeadLetter:
		event.DeadLetter = 1
	case job.Cancelled:
		event.Cancelled = 1
	}
	return event
}
