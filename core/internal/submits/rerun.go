package submits

import (
	"cmp"
	"context"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Rerun submits a new job like the ended one that call.RerunOf names; call.Jobs has one job, with what
// differs. The ended job stays as it is. jobs.ErrLive says that it has not ended.
func (s *Submits) Rerun(ctx context.Context, call Call) Answer {
	of, err := s.store.JobReads.Get(ctx, call.Tenant, call.User, *call.RerunOf)
	if err != nil {
		return Answer{Err: err}
	}
	if !job.State(of.State).Terminal() {
		return Answer{Err: jobs.ErrLive}
	}
	if api.SystemQueue(of.Queue) {
		return Answer{Err: problem.Invalid(problem.FieldError{
			Field: "queue", Message: "the job is a delivery of a webhook, and nothing can be submitted to its queue; redrive a delivery that is a dead letter",
		})}
	}
	again, err := s.likeEnded(ctx, &of, call.Jobs[0])
	if err != nil {
		return Answer{Err: err}
	}
	call.Jobs = []api.SubmitRequest{again}
	return s.Submit(ctx, []Call{call})[0]
}

// likeEnded fills in what a rerun does not say. Parents and dedupe_key are not taken over, nor what has
// passed: a deadline, and the run_at of a job that was tried, which is that of its last retry.
func (s *Submits) likeEnded(ctx context.Context, of *api.Job, again api.SubmitRequest) (api.SubmitRequest, error) {
	again.Type, again.Queue = cmp.Or(again.Type, of.Type), cmp.Or(again.Queue, of.Queue)
	if len(again.Payload) == 0 || string(again.Payload) == "null" {
		again.Payload = of.Payload
	}
	if again.Tags == nil {
		again.Tags = of.Tags
	}
	if again.Metadata == nil {
		again.Metadata = of.Metadata
	}
	again.Priority, again.MaxAttempts = orPointer(again.Priority, &of.Priority), orPointer(again.MaxAttempts, &of.MaxAttempts)
	if of.Key != nil && (of.User == nil || *of.Key != *of.User) { // otherwise it is that of the user
		again.Key = orPointer(again.Key, of.Key)
	}
	again.KeyWeight = orPointer(again.KeyWeight, of.KeyWeight)
	if again.Costs == nil {
		again.Costs = of.Costs
	}
	again.User, again.TimeoutMS = orPointer(again.User, of.User), orPointer(again.TimeoutMS, of.TimeoutMS)
	retry := store.OrElse(again.Retry, api.RetryRequest{})
	again.Retry = &api.RetryRequest{
		BaseMS: orPointer(retry.BaseMS, &of.Retry.BaseMS), CapMS: orPointer(retry.CapMS, &of.Retry.CapMS),
		Jitter: orPointer(retry.Jitter, &of.Retry.Jitter), Curve: orPointer(retry.Curve, &of.Retry.Curve),
	}
	if again.RunAt == nil && again.DelayMS == nil && of.Attempt == 0 {
		again.RunAt = of.RunAt // a past one is now
	}
	if again.Deadline == nil && again.ExpiresAfterMS == nil && of.Deadline != nil {
		now, err := s.store.Now(ctx)
		if err != nil {
			return again, err
		}
		if of.Deadline.After(now) {
			again.Deadline = of.Deadline
		}
	}
	return again, nil
}

func orPointer[T any](given, otherwise *T) *T {
	if given == nil {
		return otherwise
	}
	return given
}
