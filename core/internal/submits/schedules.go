package submits

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/schedule"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// RunSchedules works off schedules, of any tenants, that are due, at most most. A failure of one does
// not stop the others.
func (s *Submits) RunSchedules(ctx context.Context, most int) (run schedule.RunResult, err error) {
	candidates, err := s.store.Schedules.DueSchedules(ctx, most)
	if err != nil || len(candidates) == 0 {
		return run, err
	}
	ready, errs := s.fillTemplates(ctx, candidates)
	run, err = s.store.Schedules.Run(ctx, ready, func(step *schedule.Step) { s.stepped(ctx, step) })
	run.Due = len(candidates)
	return run, errors.Join(append(errs, err)...)
}

// fillTemplates makes the submission of each candidate's jobs, and their lanes. A candidate without
// one is left out.
func (s *Submits) fillTemplates(ctx context.Context, candidates []schedule.Candidate) (ready []schedule.Candidate, errs []error) {
	calls := make([]Call, len(candidates))
	for i := range candidates {
		calls[i] = templateCall(&candidates[i], uuid.UUID{})
	}
	answers := make([]Answer, len(calls))
	lanes := s.lanesOf(ctx, calls, answers)
	for i := range candidates {
		if answers[i].Err != nil {
			errs = append(errs, answers[i].Err)
			continue
		}
		candidates[i].Template = s.submission(&calls[i], lanes[i])
		ready = append(ready, candidates[i])
	}
	return ready, errs
}

func templateCall(c *schedule.Candidate, id uuid.UUID) Call {
	return Call{Tenant: c.TenantID, IDs: []uuid.UUID{id}, Jobs: []api.SubmitRequest{c.Job.Submit()}}
}

// stepped publishes the results of a step.
func (s *Submits) stepped(ctx context.Context, step *schedule.Step) {
	s.publisher.Publish(ctx, publish.Changes{Stored: step.Answers, Jobs: step.Cancelled, Reported: step.Requested})
	if len(step.Cancelled) > 0 {
		s.store.Dependencies.Appended() // others may come after them
		s.store.Gates.Appended()
		s.store.Events.Appended()
	}
	s.metrics.Schedules.Ticks.Add(float64(step.Ticks))
	for reason, n := range step.Skipped {
		s.metrics.Schedules.Skipped.WithLabelValues(reason).Add(float64(n))
	}
	s.metrics.Schedules.Missed.Add(float64(step.Missed))
	for _, late := range step.Late {
		s.metrics.Schedules.Late.Observe(late.Seconds())
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
func (s *Submits) TriggerSchedule(ctx context.Context, call *TriggerCall) (submit.Answer, error) {
	const tries = 3 // each needs another change of the schedule
	for range tries {
		answer, err := s.trigger(ctx, call)
		if !errors.Is(err, schedule.ErrChanged) {
			return answer, err
		}
	}
	return submit.Answer{}, fmt.Errorf("%w: the schedule was changed %d times", store.ErrOverloaded, tries)
}

func (s *Submits) trigger(ctx context.Context, call *TriggerCall) (submit.Answer, error) {
	candidate, err := s.store.Schedules.TriggerCandidate(ctx, call.Tenant, call.User, call.Name)
	if errors.Is(err, store.ErrNotFound) && call.Idempotency != nil {
		// A repeat gets the first answer, which was committed before the schedule was deleted.
		saved, found, findErr := s.store.Submits.FindKey(ctx, call.Idempotency.Of(call.Tenant, call.User))
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
	failed := make([]Answer, 1)
	lanes := s.lanesOf(ctx, []Call{asked}, failed)
	if failed[0].Err != nil {
		return submit.Answer{}, failed[0].Err
	}
	candidate.Template = s.submission(&asked, lanes[0])
	candidate.Template.Warnings = s.warnings(&candidate.Template)
	answer, err := s.store.Schedules.TriggerSchedule(ctx, candidate)
	if err == nil {
		s.publisher.Publish(ctx, publish.Changes{Stored: []submit.Answer{answer}})
	}
	return answer, err
}
