package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// begin starts an attempt for each job. More jobs than slots, which no server
// should send, are released.
func (r *run) begin(jobs []api.ClaimedJob, slots int) {
	fit := min(slots, len(jobs))
	came, server := time.Now(), r.serverTime()
	for _, job := range jobs[:fit] {
		ctx, cancel := context.WithCancelCause(r.base)
		l := newLease(job, came, server, cancel)
		r.leases.add(l)
		r.attempts.Go(func() {
			defer r.returnSlots(1)
			defer cancel(nil)
			r.attempt(ctx, l, came)
		})
	}
	r.giveBack(jobs[fit:], 0)
}

// giveBack releases jobs that came when no more were wanted, of which the first
// so many hold a slot.
func (r *run) giveBack(jobs []api.ClaimedJob, slots int) {
	came, server := time.Now(), r.serverTime()
	for i, job := range jobs {
		l := newLease(job, came, server, func(error) {})
		r.leases.add(l)
		r.attempts.Go(func() {
			if i < slots {
				defer r.returnSlots(1)
			}
			r.settle(l, came, decision{kind: api.KindRelease})
		})
	}
}

// attempt runs the job's handler and settles what it returned.
func (r *run) attempt(ctx context.Context, l *lease, came time.Time) {
	if l.job.TimeoutMS != nil {
		end := came.Add(time.Duration(*l.job.TimeoutMS) * time.Millisecond)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, end, ErrTimeout)
		defer cancel()
	}
	result, err := r.call(ctx, l)
	r.settle(l, came, decide(result, err, context.Cause(ctx)))
}

// settle sends the decision, lets the lease go and writes the attempt's line.
func (r *run) settle(l *lease, came time.Time, d decision) {
	took := time.Since(came) // without the sending, which may have to wait for the server
	word, err := r.send(l, d)
	r.leases.drop(l)
	r.log(l, took, word, err)
}

// log writes the canonical line of an attempt; its keys are always all there.
func (r *run) log(l *lease, took time.Duration, outcome string, err error) {
	level, text := slog.LevelInfo, ""
	if err != nil {
		text = err.Error()
		level = slog.LevelWarn
	}
	if outcome == outcomeUnsent {
		level = slog.LevelError
	}
	r.worker.logger.Log(r.base, level, "attempt",
		"job_id", l.job.ID, "type", l.job.Type, "queue", l.job.Queue, "attempt", l.job.Attempt,
		"outcome", outcome, "duration_ms", took.Milliseconds(), "error", text)
}

type verdict struct {
	result json.RawMessage
	err    error
}

// call runs the handler in a goroutine of its own, so that one that does not
// return can be left behind at the stop.
func (r *run) call(ctx context.Context, l *lease) (json.RawMessage, error) {
	handler := r.handlers[l.job.Type]
	if handler == nil {
		return nil, fmt.Errorf("no handler for type %q: %w", l.job.Type, Snooze(r.worker.unknown))
	}
	returned := make(chan verdict, 1)
	go guard(ctx, handler, newRawJob(l.job), returned)
	select {
	case v := <-returned:
		return v.result, v.err
	case <-r.abandon:
	}
	select { // both may have happened
	case v := <-returned:
		return v.result, v.err
	default:
		return nil, errAbandoned
	}
}

// guard runs the handler and tells how it ended, whichever way it did.
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
