package dispatch

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// SubmitCall is a producer's request: one job or a batch.
type SubmitCall struct {
	Tenant tenant.ID
	// User is the user of a user-bound credential, "" for none.
	User string
	IDs  []uuid.UUID
	Jobs []api.SubmitRequest
	// Refused runs in parallel to Jobs, or is nil.
	Refused       []*problem.Problem
	Batch, Atomic bool
	// Shared says that other tenants wait for the same answer: a call that may have to wait for a
	// lock of its own tenant is not started, but answered Alone.
	Shared      bool
	Idempotency *submit.Idempotency
	// Workflow makes a workflow of the jobs, or adds them to one. Its lists run in parallel to Jobs.
	Workflow *workflow.New
	// Refs are what each job of a workflow comes after.
	Refs [][]api.WorkflowDependency
	// RerunOf is the ended job that the one job runs again, see Rerun.
	RerunOf *uuid.UUID
	// Render makes the response that is saved for the Idempotency-Key, see submit.Submission.
	Render        func(*submit.Answer) (submit.Response, error)
	CorrelationID string
	Traceparent   string
	// Span is the request's span in core, zero for none; the job gets Traceparent.
	Span trace.SpanContext
	// late, where not nil, runs in parallel to Jobs: the refusals of those that would wait for too long.
	late []*problem.Problem
}

// SubmitAnswer is a call's answer, or its error.
type SubmitAnswer struct {
	submit.Answer
	// Alone says that nothing was done: the caller must repeat the call without Shared.
	Alone bool
	Err   error
}

// Submit stores the jobs of all calls, of any tenants, with the next group commit, and wakes claims
// for them.
func (d *Dispatcher) Submit(ctx context.Context, calls []SubmitCall) []SubmitAnswer {
	answers := make([]SubmitAnswer, len(calls))
	lanes := d.lanesOf(ctx, calls, answers)
	submissions := make([]*submit.Submission, 0, len(calls))
	places := make([]int, 0, len(calls))
	for i := range calls {
		if answers[i].Alone || answers[i].Err != nil {
			continue
		}
		if d.refuseLate(ctx, &calls[i], lanes[i]) {
			answers[i].Alone = true
			continue
		}
		submission := d.submission(&calls[i], lanes[i])
		if calls[i].Shared && submission.Guarded() { // it waits for its tenant's lock
			answers[i].Alone = true
			continue
		}
		submissions, places = append(submissions, &submission), append(places, i)
	}
	for i, result := range d.flushes.Submit(ctx, submissions) {
		answers[places[i]] = SubmitAnswer{Answer: result.Value, Err: result.Err}
	}
	return answers
}

// stored publishes the results of a flush of submits, also for callers that have left.
func (d *Dispatcher) stored(answers []submit.Answer) {
	var ready []jobs.Ready
	scheduled := false
	for i := range answers {
		ready = append(ready, answers[i].Ready...)
		scheduled = scheduled || answers[i].Scheduled
		d.metrics.Submitted.Add(float64(answers[i].Accepted))
	}
	d.countStored(answers)
	d.Wake(ready)
	if scheduled {
		d.scheduled()
	}
}

// submission fills in the defaults of the queue and of the API; lanes runs in parallel to the jobs.
func (d *Dispatcher) submission(call *SubmitCall, lanes []lanes.Made) submit.Submission {
	made := submit.Submission{
		Tenant: call.Tenant, User: call.User, Batch: call.Batch, Atomic: call.Atomic, Idempotency: call.Idempotency, Render: call.Render, Workflow: call.Workflow, RerunOf: call.RerunOf,
		Jobs: make([]submit.NewJob, len(call.Jobs)), Refused: call.Refused, Span: call.Span,
	}
	for i := range call.Jobs {
		if made.Refused != nil && made.Refused[i] != nil {
			made.Jobs[i] = submit.NewJob{ID: call.IDs[i]}
			continue
		}
		lane := lanes[i]
		if lane.Full != 0 {
			made.Refused = refuse(made.Refused, len(call.Jobs), i, lane.Full.Refusal())
			continue
		}
		if lane.ID == 0 { // no claim would find the job
			made.Refused = refuse(made.Refused, len(call.Jobs), i,
				problem.New(problem.Overloaded, "The job's lane could not be created in time. Nothing was stored; try again.").WithRetryAfter(time.Second))
			continue
		}
		made.Jobs[i] = d.newJob(call, i, lane.ID)
		if call.late != nil && call.late[i] != nil {
			if made.Jobs[i].WouldWait = call.late[i]; made.Jobs[i].DedupeKey == nil {
				made.Refused = refuse(made.Refused, len(call.Jobs), i, call.late[i])
			}
		}
		if !call.Batch {
			made.Warnings = d.warnings(call.Tenant, made.Jobs[i].Queue, made.Jobs[i].Type)
		}
	}
	return made
}

// warnings say why a job of the queue and type would not run.
func (d *Dispatcher) warnings(owner tenant.ID, name, jobType string) []string {
	settings := d.lanes.Settings(owner, name)
	var warnings []string
	if settings.Paused {
		warnings = append(warnings, "The queue "+name+" is paused: the job waits until it is resumed.")
	}
	if settings.MaxRunning != nil && *settings.MaxRunning == 0 {
		warnings = append(warnings, "The queue "+name+" has max_running 0: the job waits until this is raised.")
	}
	if breaker := d.breaker(settings.QueueKey); settings.Push && breaker != nil && breaker.State == api.BreakerOpen {
		warnings = append(warnings, "The destination of the queue "+name+" fails and its circuit breaker is open: the job waits, and uses up no attempt.")
	}
	switch served, ofType := d.served.By(owner, name, jobType); {
	case settings.Push || ofType:
	case served:
		warnings = append(warnings, "No worker has asked for jobs of the type "+jobType+" in the queue "+name+" recently: the job waits for one.")
	default:
		warnings = append(warnings, "No worker has asked for jobs of the queue "+name+" recently: the job waits for one.")
	}
	return warnings
}

// refuse sets one refusal in a copy of the caller's slice.
func refuse(refused []*problem.Problem, n, i int, why *problem.Problem) []*problem.Problem {
	own := make([]*problem.Problem, n)
	copy(own, refused)
	own[i] = why
	return own
}

func (d *Dispatcher) newJob(call *SubmitCall, i int, lane lanes.ID) submit.NewJob {
	request := &call.Jobs[i]
	name := queueOf(request)
	settings := d.lanes.Settings(call.Tenant, name)
	made := submit.NewJob{
		ID: call.IDs[i], Lane: lane, Queue: name, Type: request.Type, User: request.User,
		Priority: null.Or(request.Priority, api.DefaultPriority), Payload: request.Payload, Tags: null.List(request.Tags),
		MaxAttempts: null.Or(request.MaxAttempts, null.Or(settings.MaxAttempts, api.DefaultMaxAttempts)),
		Retry:       settings.Retry(), TimeoutMS: request.TimeoutMS, DedupeKey: request.DedupeKey,
		CorrelationID: null.Text(call.CorrelationID), Traceparent: null.Text(call.Traceparent),
		Delay:          time.Duration(null.Or(request.DelayMS, 0)) * time.Millisecond,
		ExpiresAfterMS: request.ExpiresAfterMS,
		Caps:           d.activeCaps(call.Tenant, name, request.User),
	}
	if len(made.Payload) == 0 {
		made.Payload = []byte("null")
	}
	made.Metadata = []byte("{}")
	if len(request.Metadata) > 0 {
		if text, err := json.Marshal(request.Metadata); err == nil {
			made.Metadata = text
		}
	}
	if retry := request.Retry; retry != nil {
		made.Retry.Base = milliseconds(retry.BaseMS, made.Retry.Base)
		made.Retry.Cap = milliseconds(retry.CapMS, made.Retry.Cap)
		made.Retry.Jitter = null.Or(retry.Jitter, made.Retry.Jitter)
		made.Retry.Curve = job.Curve(null.Or(retry.Curve, string(made.Retry.Curve)))
	}
	if request.RunAt != nil {
		made.RunAt = &request.RunAt.Time
	}
	if request.Deadline != nil {
		made.Deadline = &request.Deadline.Time
	}
	for _, after := range request.After {
		if parent, err := uuid.Parse(after.JobID); err == nil { // validated
			made.After = append(made.After, submit.After{Parent: parent, OnFailed: job.OnFailed(after.Policy())})
		}
	}
	made.After = append(made.After, call.parents(i)...)
	return made
}

// parents are what a job of a workflow comes after: other jobs of the call, or such that the workflow has
// already.
func (c *SubmitCall) parents(i int) []submit.After {
	if c.Workflow == nil {
		return nil
	}
	after := make([]submit.After, 0, len(c.Refs[i]))
	for _, one := range c.Refs[i] {
		made := submit.After{OnFailed: job.OnFailed(one.Policy())}
		if place := slices.Index(c.Workflow.Refs, one.Ref); place >= 0 {
			made.Parent = c.IDs[place]
		} else {
			made.Ref = one.Ref
		}
		after = append(after, made)
	}
	return after
}

func queueOf(request *api.SubmitRequest) string {
	if request.Queue == "" {
		return api.DefaultQueue
	}
	return request.Queue
}

// laneOf is the lane of a job: a user with a running cap of his own has lanes of his own.
func (d *Dispatcher) laneOf(owner tenant.ID, name, jobType string, tags []string, user *string) lanes.Key {
	key := lanes.NewKey(owner, name, jobType, tags)
	if user != nil && d.limits.For(owner, *user).UserMaxRunning != nil {
		return key.Of(*user)
	}
	return key
}

func milliseconds(ms *int64, otherwise time.Duration) time.Duration {
	if ms != nil {
		return time.Duration(*ms) * time.Millisecond
	}
	return otherwise
}
