package publish

import (
	"context"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/amend"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Changes is what a commit, or several, did to jobs. The zero value is nothing.
type Changes struct {
	// Jobs are those that ended without their holders, or that wait again. Because, where not empty, is why those were
	// requeued, for the metric; otherwise it is each one's event.
	Jobs    []jobs.Change
	Because string
	// Ended are the answers to Endings, which run in parallel.
	Endings []jobs.Ending
	Ended   []jobs.Ended
	// Stored are the answers to submissions.
	Stored []submit.Answer
	// Claimed are leased jobs, also such as will be given back.
	Claimed []claim.Job
	// Amended have changed while they waited.
	Amended []amend.Amended
	// Promoted were scheduled, and are queued.
	Promoted []jobs.Ready
	// Reported are running jobs that show something new: progress, or that they are asked to stop.
	Reported []uuid.UUID
	// Deleted no longer exist; Discarded counts the dead letters among them.
	Deleted   []uuid.UUID
	Discarded int
}

// Cancelled is the cancel of one job.
func Cancelled(owner tenant.ID, found *api.JobSummary, id uuid.UUID, did jobs.CancelResult) Changes {
	switch {
	case did == jobs.CancelRequested:
		return Changes{Reported: []uuid.UUID{id}}
	case did != jobs.CancelEnded:
		return Changes{}
	}
	made := jobs.Change{ID: id, Event: job.Cancel, Verdict: job.Verdict{State: job.Cancelled}}
	if found.FinishedAt != nil {
		made.Statistic = jobs.Statistic{Queue: tenant.QueueKey{Tenant: owner, Name: found.Queue}, At: found.FinishedAt.Time}
	}
	return Changes{Jobs: []jobs.Change{made}}
}

// Redriven are dead letters that were queued again.
func Redriven(found []deadletter.Redriven) []jobs.Change {
	made := make([]jobs.Change, 0, len(found))
	for i := range found {
		one := &found[i]
		if one.Err != nil {
			continue
		}
		state := job.Queued
		if one.Ready.Lane == 0 {
			state = job.Blocked
		}
		made = append(made, jobs.Change{ID: one.ID, Event: job.Redrive, Verdict: job.Verdict{State: state}, Ready: one.Ready})
	}
	return made
}

// outcome gathers what became of a job whose holder has ended its attempt.
func (p *Publisher) outcome(ctx context.Context, t *told, ending *jobs.Ending, ended *jobs.Ended) {
	if ended.Err != nil || ended.Replayed {
		return
	}
	p.metrics.Outcomes.WithLabelValues(ended.Kind).Inc()
	if ended.Verdict.State == job.Completed {
		p.metrics.Execution.Observe(ended.Execution.Seconds())
		p.metrics.EndToEnd.Observe(ended.EndToEnd.Seconds())
	}
	p.change(t, &ended.Change, ended.Kind)
	p.attempt(ctx, ended.Attempt, ended.Kind, ended.Verdict.State, failureOf(ending), ending.Logged)
}

// failureOf is the error type of a failed attempt, "" for other kinds. The message is left out: it
// is the tenant's, and may be long.
func failureOf(ending *jobs.Ending) string {
	switch {
	case ending.Kind != api.KindFail:
		return ""
	case ending.Error == nil || ending.Error.Type == "":
		return "failed"
	}
	return ending.Error.Type
}

// stored gathers the jobs of a submission.
func (p *Publisher) stored(t *told, answer *submit.Answer) {
	t.ready = append(t.ready, answer.Ready...)
	t.scheduled = t.scheduled || answer.Scheduled
	p.metrics.Submitted.Add(float64(answer.Accepted))
	for _, one := range answer.Jobs {
		if one.Row == nil || one.Deduplicated {
			continue
		}
		t.deadlines = t.deadlines || one.Row.Deadline != nil
		t.events = append(t.events, stats.Event{
			QueueKey: tenant.QueueKey{Tenant: one.Row.TenantID, Name: one.Row.Queue}, At: one.Row.CreatedAt, Counts: stats.Counts{Submitted: 1},
		})
	}
}

// claimed gathers a leased job.
func (p *Publisher) claimed(t *told, one *claim.Job) {
	t.changed = append(t.changed, one.ID)
	waited := one.StartedAt.Sub(store.OrElse(one.WaitingSince, one.ReadyAt))
	p.metrics.QueueWait.Observe(waited.Seconds())
	event := stats.Event{
		QueueKey: tenant.QueueKey{Tenant: one.TenantID, Name: one.Queue}, At: one.StartedAt, Counts: stats.Counts{Started: 1, Waiting: max(waited, 0)},
		Lane: one.LaneID,
	}
	if user := store.OrElse(one.UserID, ""); user != "" && p.cached.Limits.For(one.TenantID, user).UserMaxActive != nil {
		event.User = user
	}
	t.events = append(t.events, event)
}
