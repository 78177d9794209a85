// Package outcomes sends outcomes to the server by group commit, until each is answered.
package outcomes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker/internal/backoff"
)

const (
	// outcomeRetryLast is the longest wait before outcomes are sent again, unless the
	// server asks for more.
	outcomeRetryLast = 5 * time.Second
	// flushTry bounds one flush, the client's own retries included.
	flushTry = 15 * time.Second
	// maxFlush bounds the outcomes of a flush in bytes; the rest is for the envelope.
	maxFlush = api.MaxBatchBody - 64<<10
	// outcomeFrame is more than an outcome's names, token and numbers take, in bytes.
	outcomeFrame = 2 << 10
)

var errNoResult = errors.New("the answer does not tell of this outcome")

// pending is one outcome that the server has not answered.
type pending struct {
	outcome api.OutcomeRequest
	// options are of a call that sends it alone.
	options []client.CallOption
	// end is until when it can be accepted; a heartbeat extends it.
	end func() time.Time
	// answered gets the server's answer, or why there is none.
	answered chan Answer

	// The outbox's own: the failures so far, and when to try again.
	failures  int
	notBefore time.Time
	err       error
}

// Answer is the server's answer to one outcome. If Err is nil the outcome was
// accepted, and Outcome is the job's new state, as far as the server sent it.
type Answer struct {
	Outcome api.Outcome
	Err     error
}

// Outbox sends outcomes by group commit: one flush is under way at a time, and
// the outcomes that come during it form the next one. So an idle worker's outcome
// is sent at once and alone, and the busier a worker is the more of them share a
// request. Run's goroutine owns the fields below in.
type Outbox struct {
	client *client.Client
	logger *slog.Logger
	in     chan *pending

	// waiting have no answer yet, in order of arrival.
	waiting []*pending
	// resume is when a server that could not be reached is tried again.
	resume   time.Time
	failures int
	// halvings is how often the flush under way has divided its batch.
	halvings int
}

// NewOutbox makes one; Run sends.
func NewOutbox(c *client.Client, logger *slog.Logger) *Outbox {
	return &Outbox{client: c, logger: logger, in: make(chan *pending)}
}

// Send waits until the server has answered the outcome.
// It gives up if a repeat would get the same answer, once end, until when the outcome can be accepted, has passed,
// and with ctx. The options, such as the job's trace, are of a call that sends it alone: a request of several has none.
func (o *Outbox) Send(ctx context.Context, outcome api.OutcomeRequest, end func() time.Time, options ...client.CallOption) Answer {
	p := &pending{outcome: outcome, options: options, end: end, answered: make(chan Answer, 1)}
	select {
	case o.in <- p:
	case <-ctx.Done():
		return Answer{Err: ctx.Err()}
	}
	select {
	case response := <-p.answered:
		return response
	case <-ctx.Done():
	}
	select { // both may have happened
	case response := <-p.answered:
		return response
	default:
		return Answer{Err: ctx.Err()}
	}
}

// Run sends until ctx ends. Callers of Send leave with a context of their own.
func (o *Outbox) Run(ctx context.Context) {
	for {
		batch := o.next(ctx)
		if batch == nil {
			return
		}
		o.flush(ctx, batch)
	}
}

// next waits for outcomes that may be sent now, and gives as many as fit into one
// request; none means that ctx has ended.
func (o *Outbox) next(ctx context.Context) []*pending {
	for ctx.Err() == nil {
		o.collect()
		batch, wake := o.due(time.Now())
		if len(batch) > 0 {
			return batch
		}
		var timer <-chan time.Time
		if !wake.IsZero() {
			timer = time.After(time.Until(wake))
		}
		select {
		case p := <-o.in:
			o.waiting = append(o.waiting, p)
		case <-timer:
		case <-ctx.Done():
		}
	}
	return nil
}

// collect takes in all that has come.
func (o *Outbox) collect() {
	for {
		select {
		case p := <-o.in:
			o.waiting = append(o.waiting, p)
		default:
			return
		}
	}
}

// due gives up outcomes that are too late, then picks those that may be sent, oldest
// first; if there are none, wake is when to call it again, zero if none waits.
func (o *Outbox) due(now time.Time) (batch []*pending, wake time.Time) {
	size := 0
	o.waiting = slices.DeleteFunc(o.waiting, func(p *pending) bool {
		end := p.end()
		if p.failures > 0 && now.After(end) {
			p.answered <- Answer{Err: p.err}
			return true
		}
		at := p.notBefore
		if o.resume.After(at) {
			at = o.resume
		}
		if at.After(now) {
			if p.failures > 0 && end.Before(at) {
				at = end.Add(time.Nanosecond)
			}
			if wake.IsZero() || at.Before(wake) {
				wake = at
			}
			return false
		}
		weight := weigh(&p.outcome)
		if len(batch) == api.MaxOutcomes || (len(batch) > 0 && size+weight > maxFlush) {
			return false
		}
		batch, size = append(batch, p), size+weight
		return true
	})
	return batch, wake
}

// weigh bounds an outcome's size as JSON, in bytes. A result is sent as it is; of
// a text each byte may be escaped.
func weigh(outcome *api.OutcomeRequest) int {
	weight := outcomeFrame + len(outcome.Result) + len(outcome.Checkpoint)
	for i := range outcome.Signal {
		weight += outcomeFrame + len(outcome.Signal[i].Data)
	}
	if e := outcome.Error; e != nil {
		weight += 6 * (len(e.Type) + len(e.Message) + len(e.Stack))
	}
	if len(outcome.Submit) > 0 {
		jobs, _ := json.Marshal(outcome.Submit) // what cannot be encoded is not sent
		weight += len(jobs)
	}
	return weight
}

// mostHalvings bounds how often one flush divides a batch that fails as a whole: enough to find three outcomes among a
// thousand. A server that fails whatever it gets must not get a request for each outcome.
const mostHalvings = 32

// flush sends the outcomes in one request. Each is then answered, or waits again.
func (o *Outbox) flush(ctx context.Context, batch []*pending) {
	o.halvings = 0
	o.try(ctx, batch)
}

func (o *Outbox) try(ctx context.Context, batch []*pending) {
	if o.resume.After(time.Now()) { // the half before this one could not reach the server
		o.waiting = slices.Concat(batch, o.waiting)
		return
	}
	answers, err := o.post(ctx, batch)
	switch status := client.Status(err); {
	case err == nil:
		o.failures, o.resume = 0, time.Time{}
		for i, p := range batch {
			o.settle(p, answers[i])
		}
	case status == http.StatusTooManyRequests && slices.ContainsFunc(batch, submits):
		// Submits are limited, other outcomes do not wait for them.
		plain := make([]*pending, 0, len(batch))
		for _, p := range batch {
			if submits(p) {
				o.again(p, err)
			} else {
				plain = append(plain, p)
			}
		}
		if len(plain) > 0 {
			o.try(ctx, plain)
		}
	case len(batch) > 1 && mayBeContent(status) && o.halvings < mostHalvings:
		// Refused as a whole, perhaps because of one of them: halving finds it, so
		// that the others are accepted.
		o.halvings++
		half := len(batch) / 2
		o.try(ctx, batch[:half])
		o.try(ctx, batch[half:])
	case len(batch) > 1 && mayBeContent(status):
		o.away(batch, err)
	case Final(status):
		for _, p := range batch {
			p.answered <- Answer{Err: err}
		}
	case mayBeContent(status):
		o.again(batch[0], err)
	default:
		o.away(batch, err)
	}
}

// submits says that jobs are submitted with the outcome.
func submits(p *pending) bool { return len(p.outcome.Submit) > 0 }

// settle answers one outcome, or schedules another try.
func (o *Outbox) settle(p *pending, response Answer) {
	if response.Err == nil || Final(client.Status(response.Err)) {
		p.answered <- response
		return
	}
	o.again(p, response.Err)
}

// again schedules the next try of one outcome, with its own backoff.
func (o *Outbox) again(p *pending, err error) {
	wait := backoff.Asked(p.failures, outcomeRetryLast, err)
	p.failures++
	p.err, p.notBefore = err, time.Now().Add(wait)
	o.logger.Warn("an outcome was not taken", "job_id", p.outcome.JobID, "error", err.Error(), "failures", p.failures, "retry_ms", wait.Milliseconds())
	o.waiting = append(o.waiting, p)
}

// away delays all outcomes, also later ones: the server cannot be reached, or is
// overloaded.
func (o *Outbox) away(batch []*pending, err error) {
	wait := backoff.Asked(o.failures, outcomeRetryLast, err)
	o.failures++
	o.resume = time.Now().Add(wait)
	o.logger.Warn("outcomes were not taken", "error", err.Error(), "outcomes", len(batch), "failures", o.failures, "retry_ms", wait.Milliseconds())
	for _, p := range batch {
		p.failures++
		p.err = err
	}
	o.waiting = slices.Concat(batch, o.waiting)
}

// mayBeContent says that a refusal, or a failure, may be due to the content of the
// request. The others are due to the server, the key or the network.
func mayBeContent(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return false
	case http.StatusInternalServerError:
		return true
	default:
		return Final(status)
	}
}

// post makes one request and gives the answer to each outcome.
// A single outcome is sent to its own route, which allows a result the full nesting of
// the contract; in a batch it is two levels lower.
func (o *Outbox) post(ctx context.Context, batch []*pending) ([]Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, flushTry)
	defer cancel()
	var once []client.CallOption
	if slices.ContainsFunc(batch, submits) { // a limit on submits is waited for here, where other outcomes do not wait with it
		once = append(once, client.WithOneTry())
	}
	if len(batch) == 1 {
		outcome, err := o.postOne(ctx, &batch[0].outcome, append(once, batch[0].options...))
		return []Answer{{Outcome: outcome}}, err
	}
	outcomes := make([]api.OutcomeRequest, len(batch))
	for i, p := range batch {
		outcomes[i] = p.outcome
	}
	response, err := o.client.Outcomes(ctx, outcomes, once...)
	if err != nil {
		return nil, err
	}
	answers := slices.Repeat([]Answer{{Err: errNoResult}}, len(batch))
	for _, result := range response.Results {
		if result.Index >= 0 && result.Index < len(answers) {
			answers[result.Index] = resultOf(&result)
		}
	}
	return answers, nil
}

// resultOf is one outcome's part of the answer.
func resultOf(result *api.OutcomeResult) Answer {
	switch {
	case result.Problem != nil:
		p := *result.Problem
		if p.Status == 0 {
			p.Status = result.Status
		}
		return Answer{Err: &p}
	case result.Status < 200 || result.Status > 299:
		return Answer{Err: fmt.Errorf("%w: status %d without a problem", errNoResult, result.Status)}
	case result.Outcome == nil:
		return Answer{}
	default:
		return Answer{Outcome: *result.Outcome}
	}
}

func (o *Outbox) postOne(ctx context.Context, outcome *api.OutcomeRequest, options []client.CallOption) (api.Outcome, error) {
	switch token := outcome.LeaseToken; outcome.Kind {
	case api.KindComplete:
		return o.client.Complete(ctx, outcome.JobID, api.CompleteRequest{LeaseToken: token, Result: outcome.Result, Used: outcome.Used, Submit: outcome.Submit, Signal: outcome.Signal}, options...)
	case api.KindWait:
		return o.client.ReportWait(ctx, outcome.JobID, api.WaitRequest{
			LeaseToken: token, For: outcome.For, Mode: outcome.Mode, TimeoutMS: outcome.TimeoutMS, Checkpoint: outcome.Checkpoint,
			Used: outcome.Used, Submit: outcome.Submit, Signal: outcome.Signal,
		}, options...)
	case api.KindSnooze:
		return o.client.Snooze(ctx, outcome.JobID, api.SnoozeRequest{LeaseToken: token, DelayMS: outcome.DelayMS, Error: outcome.Error, Used: outcome.Used, Throttle: outcome.Throttle}, options...)
	case api.KindRelease:
		return o.client.Release(ctx, outcome.JobID, api.ReleaseRequest{LeaseToken: token, Used: outcome.Used}, options...)
	default:
		return o.client.Fail(ctx, outcome.JobID, api.FailRequest{
			LeaseToken: token, Error: outcome.Error, RetryAfterMS: outcome.RetryAfterMS, Permanent: outcome.Permanent, Used: outcome.Used, Throttle: outcome.Throttle,
		}, options...)
	}
}

// Final says that a repeat would get the same answer.
func Final(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return status >= 400 && status <= 499
	}
}
