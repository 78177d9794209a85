package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/idempotency"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/schedule"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// scheduleSteps is how many steps run at once: those of capped tenants may wait for a lock.
	scheduleSteps = 3
	// scheduleStep is how many schedules one transaction works off. After each of several the duty rests
	// for schedulePace times as long as it took: a burst of ticks leaves the processors to claims.
	scheduleStep = 20
	schedulePace = 1.2
	// scheduleLockWait bounds the wait for the lock of a tenant: the ticks of others wait too.
	scheduleLockWait = 500 * time.Millisecond
	// schedulePause is how long schedules are left alone whose step failed for a reason of their own,
	// overloadPause those whose job was refused as overloaded.
	schedulePause = 30 * time.Second
	overloadPause = time.Second
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

// ScheduleRun is what RunSchedules has done.
type ScheduleRun struct {
	// Due is how many schedules were listed, Worked how many were worked off.
	Due, Worked int
	// Contended says that another core works them off too, and that some were left to it.
	Contended bool
}

// RunSchedules works off schedules, of any tenants, that are due, at most most. A failure of one does
// not stop the others.
func (d *Dispatcher) RunSchedules(ctx context.Context, most int) (run ScheduleRun, err error) {
	candidates, err := d.store.Schedules.DueSchedules(ctx, most)
	if err != nil || len(candidates) == 0 {
		return run, err
	}
	run.Due = len(candidates)
	ready, errs := d.fillTemplates(ctx, candidates)
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, scheduleSteps)
	for _, some := range byLock(ready) {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			worked, contended, err := d.paceSchedules(ctx, some)
			mu.Lock()
			defer mu.Unlock()
			run.Worked, errs = run.Worked+worked, append(errs, err)
			// That one tenant's are held is no reason to leave those of others alone.
			run.Contended = run.Contended || contended && !some[0].Template.Guarded()
		})
	}
	group.Wait()
	run.Contended = run.Contended || run.Worked == 0
	return run, errors.Join(errs...)
}

// paceSchedules works candidates off in steps, with rests between them. It stops at a step of which
// nothing is left: another core is at the same ones, and two would take twice the processors.
func (d *Dispatcher) paceSchedules(ctx context.Context, candidates []schedule.Candidate) (worked int, contended bool, err error) {
	var errs []error
	for step := range slices.Chunk(candidates, scheduleStep) {
		begun := time.Now()
		n, err := d.stepSchedules(ctx, step)
		worked, errs = worked+n, append(errs, err)
		if n == 0 && err == nil {
			return worked, true, errors.Join(errs...)
		}
		if len(candidates) > scheduleStep && wait.For(ctx, time.Duration(schedulePace*float64(time.Since(begun)))) != nil {
			break // stopped; the others stay due
		}
	}
	return worked, false, errors.Join(errs...)
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

// byLock gives candidates that go under their tenant's lock for each tenant, and all others
// together: a wait for a tenant's lock delays that tenant alone.
func byLock(candidates []schedule.Candidate) [][]schedule.Candidate {
	var plain []schedule.Candidate
	var groups [][]schedule.Candidate
	places := map[tenant.ID]int{}
	for i := range candidates {
		one := candidates[i]
		if !one.Template.Guarded() {
			plain = append(plain, one)
			continue
		}
		place, known := places[one.TenantID]
		if !known {
			place = len(groups)
			places[one.TenantID] = place
			groups = append(groups, nil)
		}
		groups[place] = append(groups[place], one)
	}
	if len(plain) > 0 {
		groups = slices.Insert(groups, 0, plain)
	}
	return groups
}

// stepSchedules works candidates off in one transaction. If it fails definitely, and not for an
// unavailable database, each is tried alone, and one that fails alone is left alone for a while.
func (d *Dispatcher) stepSchedules(ctx context.Context, candidates []schedule.Candidate) (worked int, err error) {
	step, err := d.store.Schedules.StepSchedules(caps.WithLockWait(ctx, scheduleLockWait), candidates)
	switch {
	case err == nil:
		d.stepped(&step)
		return step.Worked, nil
	case store.LockTimedOut(err):
		return 0, nil // as where another core works them off
	case !store.Definite(err) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOverloaded) || ctx.Err() != nil:
		return 0, err
	case len(candidates) == 1:
		pause := schedulePause
		if refused, ok := errors.AsType[*problem.Problem](err); ok && refused.Code == problem.Overloaded {
			pause = overloadPause
		}
		err = fmt.Errorf("schedule %q of tenant %s: %w", candidates[0].Name, candidates[0].TenantID, err)
		return 0, errors.Join(err, d.store.Schedules.PostponeSchedules(ctx, candidates, pause))
	}
	var errs []error
	for i := range candidates {
		n, err := d.stepSchedules(ctx, candidates[i:i+1])
		worked, errs = worked+n, append(errs, err)
	}
	return worked, errors.Join(errs...)
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
	Idempotency *idempotency.Request
	// Render makes the response that is saved for the Idempotency-Key, see submit.Submission.
	Render                     func(*submit.Answer) (idempotency.Response, error)
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
		saved, found, findErr := d.store.Idempotency.FindKey(ctx, call.Idempotency.Of(call.Tenant, call.User))
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
