package workertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Outcome is what one attempt came to. Print it with %v to see all that counts.
type Outcome[Out any] struct {
	// Kind is api.KindComplete, KindFail, KindSnooze, KindWait or KindRelease. Empty: nothing
	// would be sent; Err says why.
	Kind string
	// Result is a completed attempt's result, written as JSON and read again.
	Result Out
	// Err is the attempt's error: the handler's own, for errors.Is and errors.As,
	// and the context's cause where that decided. Nil for a completed one.
	Err error
	// Error is a failed attempt's error as the server stores it: type, message and,
	// of a panic, the stack. Nil if it did not fail.
	Error *api.JobError
	// Permanent: the job becomes a dead letter, even with attempts left.
	Permanent bool
	// RetryAfter is the wait that worker.RetryAfter asked for; 0 leaves it to the
	// job's backoff, or asked for none.
	RetryAfter time.Duration
	// Delay is for how long the job is snoozed, or waits at most; Request has the signals that it waits for.
	Delay time.Duration
	// Progress and Checkpoint are the last that the handler reported; nil for none.
	Progress   *api.Progress
	Checkpoint json.RawMessage
	// Output is what the handler wrote to the job's output, at most its last 1 MiB; Said gives the text of it.
	Output []api.OutputChunk
	// Request is what the server would be sent, whole.
	Request api.OutcomeRequest
}

// Completed says that the job ends well, with Result.
func (o Outcome[Out]) Completed() bool { return o.Kind == api.KindComplete }

// Failed says that the attempt failed; Err, Error, Permanent and RetryAfter tell more.
func (o Outcome[Out]) Failed() bool { return o.Kind == api.KindFail }

// Panicked says that the attempt failed because the handler panicked.
func (o Outcome[Out]) Panicked() bool { return o.Failed() && o.Error.Type == "panic" }

// Snoozed says that the job is put back for Delay, and the attempt not spent.
func (o Outcome[Out]) Snoozed() bool { return o.Kind == api.KindSnooze }

// Waits says that the job waits for the signals of Request.For, or sleeps, for Delay at most, and the attempt not spent.
func (o Outcome[Out]) Waits() bool { return o.Kind == api.KindWait }

// Released says that the job is put back at once, and the attempt not spent: the
// worker stopped before the handler had a result.
func (o Outcome[Out]) Released() bool { return o.Kind == api.KindRelease }

// Said is the text of the job's output: of some streams, such as api.OutputErr, or of all.
func (o Outcome[Out]) Said(streams ...string) string {
	var text strings.Builder
	for _, chunk := range o.Output {
		if len(streams) == 0 || slices.Contains(streams, chunk.Stream) {
			text.WriteString(chunk.Text)
		}
	}
	return text.String()
}

// String tells the outcome in a line, such as "failed for good: no such address".
func (o Outcome[Out]) String() string {
	switch o.Kind {
	case api.KindComplete:
		return "completed with " + string(o.Request.Result)
	case api.KindSnooze:
		if why := o.Request.Error; why != nil {
			return fmt.Sprintf("snoozed for %v: %s", o.Delay, why.Message)
		}
		return fmt.Sprintf("snoozed for %v", o.Delay)
	case api.KindWait:
		return o.Err.Error()
	case api.KindRelease:
		return fmt.Sprintf("released: %v", o.Err)
	case api.KindFail:
		return o.failure()
	default:
		return fmt.Sprintf("no outcome: %v", o.Err)
	}
}

func (o Outcome[Out]) failure() string {
	word := "failed"
	switch {
	case o.Panicked():
		word = "panicked"
	case o.Permanent:
		word = "failed for good"
	case o.RetryAfter > 0:
		word = fmt.Sprintf("failed, retried after %v", o.RetryAfter)
	}
	return word + ": " + o.Error.Message
}

func newOutcome[Out any](request api.OutcomeRequest, err error) Outcome[Out] {
	o := Outcome[Out]{Kind: request.Kind, Err: err, Permanent: request.Permanent, Request: request}
	if o.Failed() { // a snooze's reason is in Err and Request
		o.Error = request.Error
	}
	o.RetryAfter, o.Delay = milliseconds(request.RetryAfterMS), milliseconds(cmp.Or(request.DelayMS, request.TimeoutMS))
	if o.Completed() && len(request.Result) > 0 { // a middleware may have left it out
		if err := json.Unmarshal(request.Result, &o.Result); err != nil {
			// The server has it; this program could not read it again.
			o.Err = fmt.Errorf("workertest: the result %s does not fit a %T again: %w", request.Result, o.Result, err)
		}
	}
	return o
}

func milliseconds(ms *int64) time.Duration {
	if ms == nil {
		return 0
	}
	return time.Duration(*ms) * time.Millisecond
}

// broken is an attempt with an error of the test itself.
func broken[Out any](err error) Outcome[Out] { return Outcome[Out]{Err: err} }
