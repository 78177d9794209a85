package submits

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/explain"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Submits are jobs on their way into lanes: new ones, and such as are submitted again.
type Submits struct {
	*Orphans

	store     *cell.Cell
	cached    *cache.Memory
	publisher *publish.Publisher
	explainer *explain.Explainer
	flushes   *flushes
	metrics   *metrics.Jobs
	log       *slog.Logger
}

// Options are what Submits need.
type Options struct {
	Store     *cell.Cell
	Cached    *cache.Memory
	Publisher *publish.Publisher
	Explainer *explain.Explainer
	Metrics   *metrics.Jobs
	Traces    publish.Traces
	Logger    *slog.Logger
}

// New makes them.
func New(o Options) *Submits {
	return &Submits{
		Orphans: &Orphans{store: o.Store, cached: o.Cached, publisher: o.Publisher, log: o.Logger},
		store:   o.Store, cached: o.Cached, publisher: o.Publisher, explainer: o.Explainer, metrics: o.Metrics, log: o.Logger,
		flushes: newFlushes(o.Store, o.Publisher, o.Traces),
	}
}

// Waiting gives how many submissions wait for a flush, and how many tenants have guarded ones in progress.
func (s *Submits) Waiting() (submissions, guardedTenants int) { return s.flushes.waiting() }

// Call is a producer's request: one job or a batch.
type Call struct {
	Tenant tenant.ID
	// User is the user of a user-bound credential, "" for none.
	User string
	IDs  []uuid.UUID
	Jobs []api.SubmitRequest
	// Refused runs in parallel to Jobs, or is nil.
	Refused       []*problem.Problem
	Batch, Atomic bool
	// Shared says that other tenants wait for the same answer: a call that may have to wait for a
	// lock of its own tenant is not started, but answered RetryUnbatched.
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

// Answer is a call's answer, or its error.
type Answer struct {
	submit.Answer
	// RetryUnbatched says that nothing was done: the caller must repeat the call without Shared.
	RetryUnbatched bool
	Err            error
}

// Submit stores the jobs of all calls, of any tenants, with the next group commit, and wakes claims
// for them.
func (s *Submits) Submit(ctx context.Context, calls []Call) []Answer {
	answers := make([]Answer, len(calls))
	s.judgeCosts(ctx, calls, answers)
	lanes := s.lanesOf(ctx, calls, answers)
	submissions := make([]*submit.Submission, 0, len(calls))
	places := make([]int, 0, len(calls))
	for i := range calls {
		if answers[i].RetryUnbatched || answers[i].Err != nil {
			continue
		}
		if s.refuseLate(ctx, &calls[i], lanes[i]) {
			answers[i].RetryUnbatched = true
			continue
		}
		submission := s.submission(&calls[i], lanes[i])
		submission.Warnings = s.warnings(&submission)
		if calls[i].Shared && submission.Guarded() { // it waits for its tenant's lock
			answers[i].RetryUnbatched = true
			continue
		}
		submissions, places = append(submissions, &submission), append(places, i)
	}
	for i, result := range s.flushes.submit(ctx, submissions) {
		answers[places[i]] = Answer{Answer: result.Value, Err: result.Err}
	}
	return answers
}

// submission fills in the defaults of the queue and of the API; lanes runs in parallel to the jobs.
func (s *Submits) submission(call *Call, lanes []lanes.Made) submit.Submission {
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
		if lane.Refused != 0 {
			made.Refused = refuse(made.Refused, len(call.Jobs), i, lane.Refused.Refusal())
			continue
		}
		if lane.ID == 0 { // no claim would find the job
			made.Refused = refuse(made.Refused, len(call.Jobs), i,
				problem.New(problem.Overloaded, "The job's lane could not be created in time. Nothing was stored; try again.").WithRetryAfter(time.Second))
			continue
		}
		made.Jobs[i] = s.newJob(call, i, lane.ID)
		if call.late != nil && call.late[i] != nil {
			if made.Jobs[i].WouldWait = call.late[i]; made.Jobs[i].DedupeKey == nil {
				made.Refused = refuse(made.Refused, len(call.Jobs), i, call.late[i])
			}
		}
	}
	return made
}

// warnings say why a single job, which is not refused, would not run.
func (s *Submits) warnings(of *submit.Submission) []string {
	if of.Batch || of.Jobs[0].Queue == "" {
		return nil
	}
	owner, name, jobType := of.Tenant, of.Jobs[0].Queue, of.Jobs[0].Type
	settings := s.cached.Lanes.Settings(owner, name)
	var warnings []string
	if settings.Paused {
		warnings = append(warnings, "The queue "+name+" is paused: the job waits until it is resumed.")
	}
	if until, in := settings.Window(time.Now()); in {
		warnings = append(warnings, "The queue "+name+" is in one of its windows: the job waits until "+until.UTC().Format(time.RFC3339)+".")
	}
	if settings.MaxRunning != nil && *settings.MaxRunning == 0 {
		warnings = append(warnings, "The queue "+name+" has max_running 0: the job waits until this is raised.")
	}
	if breaker := s.cached.Breakers.Of(settings.QueueKey); settings.Push && breaker != nil && breaker.State == api.BreakerOpen {
		warnings = append(warnings, "The destination of the queue "+name+" fails and its circuit breaker is open: the job waits, and uses up no attempt.")
	}
	switch served, ofType := s.cached.Served.By(owner, name, jobType); {
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

func (s *Submits) newJob(call *Call, i int, lane lanes.ID) submit.NewJob {
	request := &call.Jobs[i]
	name := queueOf(request)
	settings := s.cached.Lanes.Settings(call.Tenant, name)
	made := submit.NewJob{
		ID: call.IDs[i], Lane: lane, Queue: name, Type: request.Type, User: request.User,
		Priority: store.OrElse(request.Priority, api.DefaultPriority), Payload: request.Payload, Tags: store.EmptyIfNil(request.Tags),
		MaxAttempts: store.OrElse(request.MaxAttempts, store.OrElse(settings.MaxAttempts, api.DefaultMaxAttempts)),
		Retry:       settings.Retry(), TimeoutMS: request.TimeoutMS, DedupeKey: request.DedupeKeyOf(), Costs: s.costsOf(call.Tenant, request), KeyWeight: request.KeyWeight,
		CorrelationID: store.NullIfEmpty(call.CorrelationID), Traceparent: store.NullIfEmpty(call.Traceparent),
		Delay:          time.Duration(store.OrElse(request.DelayMS, 0)) * time.Millisecond,
		ExpiresAfterMS: request.ExpiresAfterMS,
		Caps:           s.cached.ActiveCaps(call.Tenant, name, request.User),
	}
	made.Key, made.ToGate = keyOf(request, made.Costs), made.Costs != nil
	limit := settings.Keys.InForce()
	made.Fair = made.Key != nil && limit.Fair
	if made.Key != nil && *made.Key != "" {
		made.Limit, made.ToGate = gate.LimitOf(&limit), made.ToGate || limit.RatePerSecond != nil
		made.MaxRunning, made.HoldOnDead = store.OrElse(limit.MaxRunning, 0), limit.OnDead == api.KeyHold
		if made.Limit == gate.Ordered {
			made.MaxRunning = 0
		}
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
		made.Retry.Jitter = store.OrElse(retry.Jitter, made.Retry.Jitter)
		made.Retry.Curve = job.Curve(store.OrElse(retry.Curve, string(made.Retry.Curve)))
	}
	if request.RunAt != nil {
		made.RunAt = &request.RunAt.Time
	}
	if dedupe := request.Dedupe; dedupe != nil {
		if made.OnLive = dedupe.OnLive; dedupe.MaxDelayMS != nil { // also a job that is stored now starts no later
			most := time.Duration(*dedupe.MaxDelayMS) * time.Millisecond
			made.MaxDelay, made.Delay = &most, min(made.Delay, most)
			if made.RunAt != nil && time.Until(*made.RunAt) > most {
				made.RunAt, made.Delay = nil, most
			}
		}
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
func (c *Call) parents(i int) []submit.After {
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

// keyOf is whose turn the job takes: its key, or its user; those with costs and neither of them take one together.
func keyOf(request *api.SubmitRequest, costs api.Amounts) *string {
	switch {
	case request.Key != nil:
		return request.Key
	case request.User == nil && costs != nil:
		return new("")
	}
	return request.User
}

// costsOf is what the job may use of budgets: what it says, or else its queue; nil for nothing.
func (s *Submits) costsOf(owner tenant.ID, request *api.SubmitRequest) api.Amounts {
	costs := request.Costs
	if costs == nil {
		costs = s.cached.Lanes.Settings(owner, queueOf(request)).Costs
	}
	if len(costs) == 0 {
		return nil
	}
	return costs
}

func queueOf(request *api.SubmitRequest) string {
	if request.Queue == "" {
		return api.DefaultQueue
	}
	return request.Queue
}

func milliseconds(ms *int64, otherwise time.Duration) time.Duration {
	if ms != nil {
		return time.Duration(*ms) * time.Millisecond
	}
	return otherwise
}
