package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// roomWait is for how long a job that was claimed beyond its handler's concurrency
// waits for room, and about for how long it is then put back.
const roomWait = 5 * time.Second

// HandlerOption changes how the jobs of one handler are run.
type HandlerOption func(*handlerOptions) error

type handlerOptions struct {
	timeout time.Duration
	retry   func(attempt int, err error) time.Duration
	// room has a token for each job that runs; nil is no bound.
	room chan struct{}
}

// WithTimeout bounds an attempt, from the handler's start, like a job's own timeout_ms;
// the shorter of the two ends the context, with ErrTimeout.
func WithTimeout(d time.Duration) HandlerOption {
	return func(o *handlerOptions) error {
		if d <= 0 {
			return fmt.Errorf("WithTimeout(%v): must be more than 0", d)
		}
		o.timeout = d
		return nil
	}
}

// WithRetry says how long to wait after an attempt that failed with err, instead of the
// job's backoff; at most 7 days. attempt counts from 1. 0 leaves it to the job's
// backoff. It is not asked for errors by Permanent and RetryAfter; how many attempts
// there are is for the job to say.
func WithRetry(wait func(attempt int, err error) time.Duration) HandlerOption {
	return func(o *handlerOptions) error {
		if wait == nil {
			return errors.New("WithRetry: the function is nil")
		}
		o.retry = wait
		return nil
	}
}

// WithConcurrency bounds how many jobs the handler runs at once in this worker, below
// the worker's own Concurrency. A job beyond it, claimed when slots were free, keeps its
// slot and its lease for up to 5 s, half of its timeout_ms at most, until there is room;
// then it is snoozed for about 5 s, and its attempt is not spent. So where most jobs
// are of such a type, give it a queue and a worker of its own.
func WithConcurrency(most int) HandlerOption {
	return func(o *handlerOptions) error {
		if most < 1 || most > api.MaxConcurrency {
			return fmt.Errorf("WithConcurrency(%d): must be between 1 and %d", most, api.MaxConcurrency)
		}
		o.room = make(chan struct{}, most)
		return nil
	}
}

func applied(options []HandlerOption) (handlerOptions, error) {
	var o handlerOptions
	var faults []error
	for _, option := range options {
		faults = append(faults, option(&o))
	}
	return o, errors.Join(faults...)
}

// optionsOf are those of a type's own handler.
func (w *Worker) optionsOf(jobType string) handlerOptions {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.options[jobType]
}

// enter waits for room to run one more job. Without room the error snoozes it, or is
// the end of ctx.
func (o handlerOptions) enter(ctx context.Context, jobType string) (leave func(), err error) {
	if o.room == nil {
		return func() {}, nil
	}
	maxWait := roomWait
	if deadline, ok := ctx.Deadline(); ok {
		maxWait = min(maxWait, time.Until(deadline)/2) // the rest is for the handler
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case o.room <- struct{}{}:
		return func() { <-o.room }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		back := roomWait/2 + rand.N(roomWait) //nolint:gosec // spreads load, guards nothing
		return nil, fmt.Errorf("this worker runs at most %d of type %q at once: %w", cap(o.room), jobType, Snooze(back))
	}
}

// again asks the handler's retry function about a failure that says nothing itself.
func (w *Worker) again(o handlerOptions, job api.ClaimedJob, d decision) (decided decision) {
	if o.retry == nil || d.kind != api.KindFail || d.permanent || d.retryAfter != nil {
		return d
	}
	defer func() {
		if value := recover(); value != nil {
			w.logger.Error("the function of WithRetry panicked", "job_id", job.ID, "type", job.Type, "panic", fmt.Sprint(value))
			decided = d
		}
	}()
	decided = d
	if wait := min(o.retry(job.Attempt, d.err), api.MaxBackoff); wait > 0 {
		decided.retryAfter = &wait
	}
	return decided
}
