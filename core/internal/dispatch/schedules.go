package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/schedule"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// PutSchedule makes a tenant's schedule, or replaces its settings.
func (d *Dispatcher) PutSchedule(ctx context.Context, owner tenant.ID, user, name string, request api.ScheduleRequest) (api.Schedule, error) {
	shown, err := d.store.Schedules.PutSchedule(ctx, owner, user, name, request)
	if err == nil {
		d.scheduleChanged()
	}
	return shown, err
}

// PauseSchedule pauses or resumes a tenant's schedule.
func (d *Dispatcher) PauseSchedule(ctx context.Context, owner tenant.ID, user, name string, paused bool) (api.Schedule, error) {
	shown, err := d.store.Schedules.PauseSchedule(ctx, owner, user, name, paused)
	if err == nil {
		d.scheduleChanged()
	}
	return shown, err
}

// RunSchedules works off schedules, of any tenants, that are due, at most most. A failure of one does
// not stop the others.
func (d *Dispatcher) RunSchedules(ctx context.Context, most int) (run schedule.RunResult, err error) {
	candidates, err := d.store.Schedules.DueSchedules(ctx, most)
	if err != nil || len(candidates) == 0 {
		return run, err
	}
	ready, errs := d.fillTemplates(ctx, candidates)
	run, err = d.store.Schedules.Run(ctx, ready, d.stepped)
	run.Due = len(candidates)
	return run, errors.Join(append(errs, err)...)
}

// fillTemplates makes the submission of each candidate's jobs, and their lanes. A candidate without
// one is left out.
func (d *Dispatcher) fillTemplates(ctx context.Context, candidates []schedule.Candidate) (ready []schedule.Candidate, errs []error) {
	calls := make([]SubmitCall, len(candidates))
	for i := range candidates {
		calls[i] = templateCall(&candidates[i], uuid.UUID{})
	}
	answers := make([]SubmitAnswer, len(calls))
	lanes := d.lanesOf(ctx, calls, answers)
	for i := range candidates {
		if answers[i].Err != nil {
			errs = append(errs, answers[i].Err)
			continue
		}
		candidates[i].Template = d.submission(&calls[i], lanes[i])
		ready = append(ready, candidates[i])
	}
	return ready, errs
}

func templateCall(c *schedule.Candidate, id uuid.UUID) SubmitCall {
	return SubmitCall{Tenant: c.TenantID, IDs: []uuid.UUID{id}, Jobs: []api.SubmitRequest{c.Job.Submit()}}
}

// stepped publishes the results of a step.
func (d *Dispatcher) stepped(step *schedule.Step) {
	d.stored(step.Answers)
	d.metrics.Cancelled.Add(float64(len(step.Cancelled)))
	d.countReaped(step.Cancelled)
	d.Ended(jobs.IDs(step.Cancelled)...)
	d.watches.WakeForVersion(step.Requested...)
	if len(step.Cancelled) > 0 {
		d.store.Dependencies.Appended() // others may come after them
		d.store.Events.Appended()
	}
	d.metrics.Schedules.Ticks.Add(float64(step.Ticks))
	for reason, n := range step.Skipped {
		d.metrics.Schedules.Skipped.WithLabelValues(reason).Add(float64(n))
	}
	d.metrics.Schedules.Missed.Add(float64(step.Missed))
	for _, late := range step.Late {
		d.metrics.Schedules.Late.Observe(late.Seconds())
	}
}

// TriggerCall asks for one job of a schedule now.
type TriggerCall struct {
	Tenant tenant.ID
	// User is the user of a user-bound credential, "" for none.
	User        string
	Name        string
	ID          uuid.UUID
	Idempotency *submit.Idempotency
	// Render makes the response that is saved for the Idempotency-Key, see submit.Submission.
	Render                     func(*submit.Answer) (submit.Response, error)
	CorrelationID, Traceparent string
}

// TriggerSchedule submits one job of a schedule now. Its ticks stay as they are.
func (d *Dispatcher) TriggerSchedule(ctx context.Context, call *TriggerCall) (submit.Answer, error) {
	const tries = 3 // each needs another change of the schedule
	for range tries {
		answer, err := d.trigger(ctx, call)
		if !errors.Is(err, schedule.ErrChanged) {
			return answer, err
		}
	}
	return submit.Answer{}, fmt.Errorf("%w: the schedule was changed %d times", store.ErrOverloaded, tries)
}

func (d *Dispatcher) trigger(ctx context.Context, call *TriggerCall) (submit.Answer, error) {
	candidate, err := d.store.Schedules.TriggerCandidate(ctx, call.Tenant, call.User, call.Name)
	if errors.Is(err, store.ErrNotFound) && call.Idempotency != nil {
		// A repeat gets the first answer, which was committed before the schedule was deleted.
		saved, found, findErr := d.store.Submits.FindKey(ctx, call.Idempotency.Of(call.Tenant, call.User))
		if found {
			return submit.Replay(call.Idempotency, saved), nil
		}
		err = cmp.Or(findErr, err)
	}
	if err != nil {
		return submit.Answer{}, err
	}
	asked := templateCall(&candidate, call.ID)
	asked.User, asked.Idempotency, asked.Render = call.User, call.Idempotency, call.Render
	asked.CorrelationID, asked.Traceparent = call.CorrelationID, call.Traceparent
	failed := make([]SubmitAnswer, 1)
	lanes := d.lanesOf(ctx, []SubmitCall{asked}, failed)
	if failed[0].Err != nil {
		return submit.Answer{}, failed[0].Err
	}
	candidate.Template = d.submission(&asked, lanes[0])
	answer, err := d.store.Schedules.TriggerSchedule(ctx, candidate)
	if err == nil {
		d.stored([]submit.Answer{answer})
	}
	return answer, err
}
