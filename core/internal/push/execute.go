package push

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// quickTries is how often a call is repeated within an attempt, after a pause between
	// quickLeast and quickMost.
	quickTries            = 2
	quickLeast, quickMost = 50 * time.Millisecond, 500 * time.Millisecond
	// endFor is how long the outcome is retried while the database is unavailable, before the lease
	// expires, endPause about the pause between two tries.
	endFor   = 20 * time.Second
	endPause = 200 * time.Millisecond
)

// attempt is one execution of a job.
type attempt struct {
	target *target
	job    *claim.Job
	body   []byte
	tries  int
	// status is the last answer's; 0 and failure where there was none.
	status  int
	failure *failure
	// probe says that the breaker was half-open.
	probe bool
}

// execute makes the calls for one job and ends its attempt.
func (e *Executor) execute(calls context.Context, t *target, claimed *claim.Job, received time.Time) {
	defer e.leave(t)
	a := &attempt{target: t, job: claimed}
	ctx, cancel := context.WithCancelCause(calls)
	defer cancel(nil)
	timed, stop := context.WithDeadlineCause(ctx, callEnd(t, claimed, received), errTimeout)
	defer stop()
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		e.renew(timed, cancel, claimed, received)
	}()
	v := e.call(timed, a)
	cause := context.Cause(ctx)
	stop()
	<-renewed
	if v == nil {
		v = endedBy(cause)
	}
	if v.kind != "" {
		e.end(ctx, a, v)
	}
	e.lastCalls.note(a)
	e.metrics.Outcomes.WithLabelValues(v.word).Inc()
	e.metrics.Duration.Observe(time.Since(received).Seconds())
	e.log.InfoContext(ctx, "push", "job", claimed.ID, "tenant", claimed.TenantID, "queue", claimed.Queue, "type", claimed.Type, "attempt", claimed.Attempt,
		"epoch", claimed.Epoch, "outcome", v.word, "status", a.status, "tries", a.tries,
		"duration_ms", time.Since(received).Milliseconds(), "correlation_id", store.OrElse(claimed.CorrelationID, ""),
		"trace_id", telemetry.TraceID(store.OrElse(claimed.Traceparent, "")))
}

// callEnd is the latest end of a call: by the queue's timeout, and before the job's, at which its
// lease ends too.
func callEnd(t *target, claimed *claim.Job, received time.Time) time.Time {
	end := received.Add(t.settings.Target.Timeout)
	if claimed.TimeoutMs == nil {
		return end
	}
	left := time.Duration(*claimed.TimeoutMs) * time.Millisecond
	left -= min(max(left/5, 100*time.Millisecond), 2*time.Second)
	if by := received.Add(left); by.Before(end) {
		return by
	}
	return end
}

// call makes the calls of an attempt; nil if they were cancelled by core, or never made.
func (e *Executor) call(ctx context.Context, a *attempt) *verdict {
	var err error
	if a.body, err = bodyOf(a.job); err != nil {
		e.called(a.target)
		return &verdict{word: wordFailed, kind: api.KindFail, permanent: true, err: &api.JobError{Type: "internal", Message: err.Error()}}
	}
	e.budget.earn(a.target.settings.Tenant)
	var last *verdict
	for {
		response, probe, err := e.try(ctx, a)
		if refused(err) || errors.Is(err, errCancelledByCore) {
			return last // the first answer of a repeated call stands
		}
		v := judge(response)
		if handedOver(a.target, response) {
			v = verdict{word: wordPublished}
		}
		last, a.status, a.failure = &v, response.status, response.failure
		if a.probe = probe; probe {
			return ofProbe(v)
		}
		if !v.retry || a.tries > quickTries || !e.budget.spend(a.target.settings.Tenant) {
			return last
		}
		e.metrics.QuickTries.Inc()
		if wait.For(ctx, quickLeast+rand.N(quickMost-quickLeast)) != nil { //nolint:gosec // spreads tries, guards nothing
			return last
		}
	}
}

// try makes one call through the breaker.
func (e *Executor) try(ctx context.Context, a *attempt) (response *answer, probe bool, err error) {
	entered := false
	enter := func() {
		if a.tries == 0 && !entered {
			e.called(a.target)
		}
		entered = true
	}
	response, probe, err = a.target.breaker.call(func() (*answer, error) {
		enter()
		a.tries++
		if a.target.broker != nil {
			return e.publish(ctx, a)
		}
		r, err := newRequest(ctx, a.target, a.job, a.body, time.Now())
		if err != nil {
			return &answer{failure: &failure{kind: "internal", message: "the call could not be made"}}, errFailing
		}
		endSpan := e.span(a, r)
		response, err := send(e.transport, r)
		endSpan(response)
		if err == nil && judge(response).failing {
			err = errFailing
		}
		return response, err
	})
	enter()
	return response, probe, err
}

// ofProbe returns the attempt of a failed probe: the job was only used for the probe. That is
// bounded by a day.
func ofProbe(v verdict) *verdict {
	if v.failing && v.kind == api.KindFail {
		return &verdict{word: wordProbe, kind: api.KindRelease, err: v.err, deferral: api.MaxDeferral, failing: true}
	}
	return &v
}

// endedBy is the verdict on an attempt whose call was cancelled by core, or not made because the
// breaker has opened.
func endedBy(cause error) *verdict {
	switch {
	case errors.Is(cause, errLeaseLost):
		return &verdict{word: wordLost}
	case errors.Is(cause, errCancelled): // ends as cancelled, by the transition table
		return &verdict{word: wordCancelled, kind: api.KindRelease}
	}
	return &verdict{word: wordGivenBack, kind: api.KindRelease}
}

// end stores an outcome. It is retried while the database is unavailable: a repeat gets the first
// one's answer.
func (e *Executor) end(ctx context.Context, a *attempt, v *verdict) {
	if v.delay > 0 { // not before the destination's Retry-After, and jittered
		v.delay += rand.N(v.delay/10 + 1) //nolint:gosec // spreads jobs, guards nothing
	}
	finish, cancel := context.WithTimeout(e.ofJob(context.WithoutCancel(ctx), a.job), endFor)
	defer cancel()
	ending := jobs.Ending{
		Lease: a.job.Lease(), Kind: v.kind, Result: v.result, Error: v.err, Permanent: v.permanent, Delay: v.delay, Deferral: v.deferral,
		Random: rand.Float64(), //nolint:gosec // spreads retries, guards nothing
		Logged: true,           // by execute
	}
	for {
		ended := e.engine.Claims.End(finish, []jobs.Ending{ending})[0]
		if ended.Err == nil {
			return
		}
		if errors.Is(ended.Err, jobs.ErrLeaseLost) || errors.Is(ended.Err, store.ErrNotFound) || errors.Is(ended.Err, jobs.ErrOutcomeConflict) {
			v.word = wordLost
			return
		}
		if finish.Err() != nil {
			e.log.WarnContext(ctx, "the outcome of a push is lost; its lease will run out", "job", a.job.ID, "error", ended.Err)
			v.word = wordLost
			return
		}
		_ = wait.About(finish, endPause)
	}
}
