package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Attempt runs the handler of one job, middleware included, and gives the outcome
// that Run would send for it, and the attempt's own error; nil for a result.
// Nothing is claimed, renewed or sent: package workertest is built on it, and it is
// for jobs that do not come from a claim.
//
// The job's timeout_ms counts from the call. What else ends a handler's context in
// Run, here the caller does: ctx's cause may be [ErrCancelRequested], [ErrLeaseLost]
// or [ErrStopping]. Attempt returns when the handler does, however long that takes.
//
// Kind is empty, and the error says why, where nothing would be sent: the lease
// is lost, or handlers were given wrongly. Attempt may be called at any time, and
// more than once.
func (w *Worker) Attempt(ctx context.Context, job api.ClaimedJob) (api.OutcomeRequest, error) {
	outcome, _, err := w.AttemptReports(ctx, job)
	return outcome, err
}

// AttemptReports is Attempt that also gives what the handler has reported: the lease as
// a heartbeat at the end would have it, with the last progress and checkpoint.
func (w *Worker) AttemptReports(ctx context.Context, job api.ClaimedJob) (api.OutcomeRequest, api.Lease, error) {
	outcome, reported, _, err := w.AttemptOutput(ctx, job)
	return outcome, reported, err
}

// AttemptOutput is AttemptReports that also gives what the handler has written to the job's output, its last 1 MiB.
func (w *Worker) AttemptOutput(ctx context.Context, job api.ClaimedJob) (api.OutcomeRequest, api.Lease, []api.OutputChunk, error) {
	reported := api.Lease{JobID: job.ID, LeaseToken: job.LeaseToken}
	w.mu.Lock()
	handlers, err := w.wrapped(), errors.Join(w.faults...)
	w.mu.Unlock()
	if err != nil {
		return api.OutcomeRequest{}, reported, nil, err
	}
	noted, said := &reports{}, &output{limit: api.MaxOutput}
	d := w.execute(ctx, handlerFor(handlers, job.Type), job, time.Now(), noted, said, nil)
	noted.take(&reported)
	said.end(0)
	return d.request(job.ID, job.LeaseToken), reported, said.rest(), d.err
}

// begin starts an attempt for each job, now or when it has a slot. More jobs than were asked for,
// which no server should send, are released.
func (r *run) begin(jobs []api.ClaimedJob, asked int) {
	fit := min(asked, len(jobs))
	came := time.Now()
	for _, job := range jobs[:fit] {
		ctx, cancel := context.WithCancelCause(r.base)
		l := newLease(job, came, cancel)
		l.output = &output{run: r, lease: l, limit: outputUnsent}
		r.leases.add(l)
		r.room.enter(l)
		r.attempts.Go(func() {
			defer cancel(nil)
			r.attempt(ctx, l, came)
		})
	}
	r.giveBack(jobs[fit:])
}

// attempt runs a job once it has a slot, or releases it if it gets none in time.
func (r *run) attempt(ctx context.Context, l *lease, came time.Time) {
	defer r.room.answered()
	d := decision{kind: api.KindRelease}
	switch {
	case r.room.starts(ctx, l):
		began := time.Now()
		d = r.worker.execute(ctx, handlerFor(r.handlers, l.job.Type), l.job, came, l.reports, l.output, r.abandon)
		r.room.leave(l)
		came = began
	case errors.Is(context.Cause(ctx), ErrLeaseLost):
		d = decision{err: ErrLeaseLost}
	}
	r.settle(l, came, d)
}

// giveBack releases jobs that were claimed while the worker stops, or beyond what it asked for.
func (r *run) giveBack(jobs []api.ClaimedJob) {
	came := time.Now()
	for _, job := range jobs {
		l := newLease(job, came, func(error) {})
		r.leases.add(l)
		r.attempts.Go(func() { r.settle(l, came, decision{kind: api.KindRelease}) })
	}
}

// settle sends the decision, drops the lease and writes the attempt's line.
func (r *run) settle(l *lease, began time.Time, d decision) {
	took := time.Since(began) // without the sending, which may wait for the server
	r.outputLast(l, d)
	r.reportLast(l, d)
	e := r.send(l, d)
	r.leases.drop(l)
	r.log(l, took, e)
}

// execute runs a claimed job's handler, nil if its type has none, and decides its
// outcome. Once abandon is closed (nil never is), it does not wait for a handler
// that has not returned.
func (w *Worker) execute(ctx context.Context, handler HandlerFunc, job api.ClaimedJob, came time.Time, noted *reports, said *output, abandon <-chan struct{}) decision {
	if handler == nil {
		return decide(nil, fmt.Errorf("worker %s has %w for type %q: %w", w.id, errNoHandler, job.Type, Snooze(w.unknown)), context.Cause(ctx))
	}
	if job.TimeoutMS != nil {
		end := came.Add(time.Duration(*job.TimeoutMS) * time.Millisecond)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end, ErrTimeout)
		defer cancel()
	}
	own := w.optionsOf(job.Type)
	leave, err := own.enter(ctx, job.Type)
	if err != nil {
		return decide(nil, err, context.Cause(ctx))
	}
	defer leave()
	if own.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, own.timeout, ErrTimeout)
		defer cancel()
	}
	raw := newRawJob(job, w, noted, said)
	result, err := invoke(ctx, handler, raw, abandon)
	made := decide(result, err, context.Cause(ctx))
	made.used = raw.used.all()
	made.submit, made.signal = raw.then.all()
	if made.kind == api.KindWait {
		made.checkpoint = noted.unsent()
	}
	return w.again(own, job, made)
}

type verdict struct {
	result json.RawMessage
	err    error
}

// invoke runs the handler in a goroutine of its own, so that a stop need not wait
// for one that does not return.
func invoke(ctx context.Context, handler HandlerFunc, job *RawJob, abandon <-chan struct{}) (json.RawMessage, error) {
	returned := make(chan verdict, 1)
	go guard(ctx, handler, job, returned)
	select {
	case v := <-returned:
		return v.result, v.err
	case <-abandon:
	}
	select { // both may have happened
	case v := <-returned:
		return v.result, v.err
	default:
		return nil, errAbandoned
	}
}

// guard runs the handler and sends how it ended, also after a panic or Goexit.
func guard(ctx context.Context, handler HandlerFunc, job *RawJob, returned chan<- verdict) {
	v := verdict{err: &kindError{"goexit", errGoexit}}
	defer func() {
		if value := recover(); value != nil {
			v = verdict{err: &panicError{value: value, stack: string(debug.Stack())}}
		}
		returned <- v
	}()
	v.result, v.err = handler(ctx, job)
}
