package workertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// Option says what is special about the attempt.
type Option func(*setting)

// setting is one attempt: the job, and what happens to it.
type setting struct {
	job        api.ClaimedJob
	middleware []func(worker.HandlerFunc) worker.HandlerFunc
	ends       []end
	// parents are what the job's Parents answers.
	parents []api.JobParent
	// fault is what an option could not do.
	fault error
}

// end ends the handler's context.
type end struct {
	after time.Duration
	cause error
}

func newSetting(jobType string, input any, options []Option) (*setting, error) {
	sent, err := payload(input)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	s := &setting{job: api.ClaimedJob{
		ID: "00000000-0000-7000-8000-000000000001", Tenant: "test", Type: jobType, Queue: api.DefaultQueue,
		Payload: sent, Priority: api.DefaultPriority, Attempt: 1, MaxAttempts: api.DefaultMaxAttempts, Epoch: 1,
		LeaseToken: "lease", LeaseExpiresAt: api.At(now.Add(api.DefaultVisibilityTimeout)), LeaseMS: api.DefaultVisibilityTimeout.Milliseconds(),
		Tags: []string{}, Metadata: map[string]string{}, Signals: []api.ClaimedSignal{}, CreatedAt: api.At(now),
	}}
	if args, ok := input.(client.JobArgs); ok {
		if err := s.asSubmitted(args, jobType); err != nil {
			return nil, err
		}
	}
	for _, option := range options {
		option(s)
	}
	return s, s.fault
}

// asSubmitted makes the job as client.Submit would; jobType stays if it is a type
// that the arguments do not name.
func (s *setting) asSubmitted(args client.JobArgs, jobType string) error {
	request, err := client.Request(args)
	if err != nil {
		return err
	}
	if jobType == Type || jobType == "" {
		s.job.Type = request.Type
	}
	s.job.Queue = cmp.Or(request.Queue, s.job.Queue)
	s.job.User, s.job.TimeoutMS, s.job.Deadline = request.User, request.TimeoutMS, request.Deadline
	if after := request.ExpiresAfterMS; after != nil {
		s.job.Deadline = &api.Time{Time: time.Now().Add(time.Duration(*after) * time.Millisecond)}
	}
	if request.Priority != nil {
		s.job.Priority = *request.Priority
	}
	if request.MaxAttempts != nil {
		s.job.MaxAttempts = *request.MaxAttempts
	}
	s.job.Tags = append(s.job.Tags, request.Tags...)
	maps.Copy(s.job.Metadata, request.Metadata)
	return nil
}

// WithAttempt makes it the nth attempt, counted from 1; the epoch is n too.
func WithAttempt(n int) Option {
	return WithJob(func(job *api.ClaimedJob) {
		job.Attempt, job.Epoch = n, int64(n)
		job.MaxAttempts = max(job.MaxAttempts, n)
	})
}

// WithMaxAttempts sets how many attempts the job has.
func WithMaxAttempts(n int) Option {
	return WithJob(func(job *api.ClaimedJob) { job.MaxAttempts = n })
}

// WithCheckpoint makes an earlier attempt have left a checkpoint, for the handler's Restore.
func WithCheckpoint(value any) Option {
	return func(s *setting) {
		text, err := json.Marshal(value)
		if err != nil && s.fault == nil {
			s.fault = fmt.Errorf("workertest: the checkpoint cannot be written as JSON: %w", err)
		}
		s.job.Checkpoint = text
	}
}

// WithSignal makes the job have a signal with data, nil for none, that has ended its wait.
func WithSignal(name string, data any) Option {
	return func(s *setting) {
		text, err := json.Marshal(data)
		if err != nil && s.fault == nil {
			s.fault = fmt.Errorf("workertest: the data of signal %q cannot be written as JSON: %w", name, err)
		}
		s.job.Signals = append(s.job.Signals, api.ClaimedSignal{Name: name, Data: text, At: s.job.CreatedAt})
		s.job.WokenBy = new(api.WokenBySignal)
	}
}

// WithWaitTimeout makes the job have waited until its time was up.
func WithWaitTimeout() Option {
	return WithJob(func(job *api.ClaimedJob) { job.WokenBy = new(api.WokenByTimeout) })
}

// WithMetadata adds to the job's metadata.
func WithMetadata(key, value string) Option {
	return WithJob(func(job *api.ClaimedJob) { job.Metadata[key] = value })
}

// WithUser names the tenant's end user whose job it is.
func WithUser(user string) Option {
	return WithJob(func(job *api.ClaimedJob) { job.User = &user })
}

// WithTimeout sets the job's timeout_ms; the context's cause is then
// worker.ErrTimeout. At least a millisecond.
func WithTimeout(d time.Duration) Option {
	ms := max(d.Milliseconds(), 1)
	return WithJob(func(job *api.ClaimedJob) { job.TimeoutMS = &ms })
}

// WithPayload sends this JSON in the input's place, such as what an older
// producer sends.
func WithPayload(text string) Option {
	return WithJob(func(job *api.ClaimedJob) { job.Payload = json.RawMessage(text) })
}

// WithJob changes anything else of the claimed job. Options are applied in order.
func WithJob(change func(job *api.ClaimedJob)) Option {
	return func(s *setting) { change(&s.job) }
}

// WithMiddleware wraps the handler, the first outermost. It is for Run: the
// worker of RunWorker has its own, by worker.Worker.Use.
func WithMiddleware(middleware ...func(next worker.HandlerFunc) worker.HandlerFunc) Option {
	return func(s *setting) { s.middleware = append(s.middleware, middleware...) }
}

// CancelAfter asks for the job's cancellation once the handler has run for d, or
// before it starts if d is 0: the context's cause is worker.ErrCancelRequested.
func CancelAfter(d time.Duration) Option { return endAfter(d, worker.ErrCancelRequested) }

// LoseLeaseAfter takes the lease away: the cause is worker.ErrLeaseLost. A result
// that comes all the same is offered to the server; an error is not.
func LoseLeaseAfter(d time.Duration) Option { return endAfter(d, worker.ErrLeaseLost) }

// StopAfter ends the worker's grace: the cause is worker.ErrStopping. Unlike a
// worker's stop it waits for a handler that does not return.
func StopAfter(d time.Duration) Option { return endAfter(d, worker.ErrStopping) }

func endAfter(d time.Duration, cause error) Option {
	return func(s *setting) { s.ends = append(s.ends, end{d, cause}) }
}
