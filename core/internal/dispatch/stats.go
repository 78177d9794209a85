package dispatch

import (
	"context"
	"errors"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// AppendStats appends what was counted since the last time; appended says that there was something. Counts that were
// not appended for certain are kept for the next time; where the outcome is unknown they are dropped, so that none is
// appended twice.
func (d *Dispatcher) AppendStats(ctx context.Context) (appended bool, err error) {
	pending, lost := d.stats.Take()
	if len(pending) > 0 {
		switch err = d.store.Stats.AppendStats(ctx, pending); {
		case err == nil:
			appended = true
		case store.Definite(err):
			d.stats.Restore(pending)
		default:
			lost += pending.Events()
		}
	}
	uses, lostUses := d.uses.Take()
	if len(uses) > 0 {
		usesErr := d.store.Stats.AppendLimitStats(ctx, uses)
		switch {
		case usesErr == nil:
			appended = true
		case store.Definite(usesErr):
			d.uses.Restore(uses)
		default:
			lostUses += int64(len(uses))
		}
		err = errors.Join(err, usesErr)
	}
	d.metrics.StatsLost.Add(float64(lost + lostUses))
	return appended, err
}

// countUses notes the use of tenants' caps. Of users it is that of the one with the most, and by name who was refused.
func (d *Dispatcher) countUses(uses []caps.Use) {
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
	d.uses.Record(noted...)
}

// RecordUses notes what a gateway has admitted and refused of a tenant's requests.
func (d *Dispatcher) RecordUses(owner tenant.ID, uses []api.HopLimitUse) {
	noted := make([]stats.LimitUse, len(uses))
	for i, one := range uses {
		noted[i] = stats.LimitUse{
			Tenant: owner, Limit: one.Limit, Name: one.Name,
			LimitCounts: stats.LimitCounts{Used: one.Used, Allowed: one.Allowed, Refused: one.Refused},
		}
	}
	d.uses.Record(noted...)
}

// countStored counts jobs that were stored.
func (d *Dispatcher) countStored(answers []submit.Answer) {
	var events []stats.Event
	for i := range answers {
		for _, one := range answers[i].Jobs {
			if one.Row == nil || one.Deduplicated {
				continue
			}
			events = append(events, stats.Event{
				QueueKey: tenant.QueueKey{Tenant: one.Row.TenantID, Name: one.Row.Queue}, At: one.Row.CreatedAt, Counts: stats.Counts{Submitted: 1},
			})
		}
	}
	d.stats.Record(events...)
}

// countClaimed counts attempts that were claimed, also those that are given back.
func (d *Dispatcher) countClaimed(jobs []claim.Job) {
	events := make([]stats.Event, len(jobs))
	for i := range jobs {
		one := &jobs[i]
		events[i] = stats.Event{
			QueueKey: tenant.QueueKey{Tenant: one.TenantID, Name: one.Queue}, At: one.StartedAt,
			Counts: stats.Counts{Started: 1, Waiting: max(one.StartedAt.Sub(one.ReadyAt), 0)},
		}
	}
	d.stats.Record(events...)
}

// countEnded counts attempts that their holders have ended, without repeats.
func (d *Dispatcher) countEnded(ended []jobs.Ended) {
	events := make([]stats.Event, 0, len(ended))
	for i := range ended {
		if ended[i].Err == nil && !ended[i].Replayed {
			events = append(events, eventOf(&ended[i].Statistic, job.State(ended[i].Outcome.State)))
		}
	}
	d.stats.Record(events...)
}

// countReaped counts jobs that were ended or requeued without a holder.
func (d *Dispatcher) countReaped(reaped []jobs.Reaped) {
	events := make([]stats.Event, len(reaped))
	for i := range reaped {
		events[i] = eventOf(&reaped[i].Statistic, reaped[i].Verdict.State)
	}
	d.stats.Record(events...)
}

// countCancelled counts a job that waited and was cancelled.
func (d *Dispatcher) countCancelled(owner tenant.ID, cancelled *api.JobSummary) {
	if cancelled.FinishedAt != nil {
		d.stats.Record(stats.Event{
			QueueKey: tenant.QueueKey{Tenant: owner, Name: cancelled.Queue}, At: cancelled.FinishedAt.Time, Counts: stats.Counts{Cancelled: 1},
		})
	}
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
