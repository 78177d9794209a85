package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Words for the outcome in the log line.
const (
	outcomeLost   = "lost"   // the lease was no longer ours; nothing was changed
	outcomeUnsent = "unsent" // the server could not be told; the lease will run out
)

// outcomeWord gives the word for an outcome that the server has taken.
func outcomeWord(kind string) string {
	switch kind {
	case api.KindComplete:
		return "completed"
	case api.KindSnooze:
		return "snoozed"
	case api.KindRelease:
		return "released"
	default:
		return "failed"
	}
}

const (
	outcomeRetryFirst = 100 * time.Millisecond
	outcomeRetryLast  = 5 * time.Second
	// outcomeTry bounds one sending, the client's own retries included.
	outcomeTry = 15 * time.Second
)

// decision is what to tell the server of an attempt.
type decision struct {
	// kind is an outcome's; empty: nothing is to be told.
	kind       string
	result     json.RawMessage
	err        error
	permanent  bool
	retryAfter *time.Duration
	delay      time.Duration
}

// decide turns what the handler returned, and why its context ended (nil if it
// had not), into an outcome. What the handler says clearly (a result, a snooze,
// a permanent failure) stands before the cause.
func decide(result json.RawMessage, err, cause error) decision {
	if err == nil {
		return decision{kind: api.KindComplete, result: result}
	}
	if errors.Is(cause, ErrLeaseLost) {
		return decision{err: withCause(err, cause)}
	}
	if snoozed, ok := errors.AsType[*snoozeError](err); ok {
		return decision{kind: api.KindSnooze, delay: snoozed.delay, err: err}
	}
	if _, ok := errors.AsType[*permanentError](err); ok {
		return decision{kind: api.KindFail, permanent: true, err: err}
	}
	failed := decision{kind: api.KindFail, err: err}
	if again, ok := errors.AsType[*retryAfterError](err); ok {
		failed.retryAfter = &again.delay
	}
	switch {
	case errors.Is(cause, ErrStopping):
		return decision{kind: api.KindRelease, err: withCause(err, cause)}
	case errors.Is(cause, ErrTimeout):
		failed.err = &kindError{"timeout", withCause(err, cause)}
	case errors.Is(cause, ErrCancelRequested):
		failed.err = &kindError{"cancelled", withCause(err, cause)}
	}
	return failed
}

// withCause puts the cause before what the handler said of it, once.
func withCause(err, cause error) error {
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// send tells the server until it has answered, or the lease is certainly over.
// It gives the word for the log line, and the error: the attempt's own, or why
// it could not be told.
func (r *run) send(l *lease, d decision) (string, error) {
	if d.kind == "" {
		return outcomeLost, d.err
	}
	for failures := 0; ; failures++ {
		err := r.sendOnce(l, d)
		switch status := client.Status(err); {
		case err == nil:
			return outcomeWord(d.kind), d.err
		case hasCode(err, problem.LeaseLost):
			return outcomeLost, errors.Join(d.err, ErrLeaseLost)
		case d.kind == api.KindComplete && unfit(status):
			// Refused as a result, not as an outcome: the attempt still has to end.
			d = decision{kind: api.KindFail, permanent: true, err: resultError(fmt.Errorf("the result was refused: %w", err))}
			continue
		case final(status) || r.base.Err() != nil || time.Now().After(r.leases.certainEnd(l)):
			return outcomeUnsent, errors.Join(d.err, fmt.Errorf("%s could not be sent: %w", d.kind, err))
		}
		pause(r.base, backoff(failures, outcomeRetryFirst, outcomeRetryLast))
	}
}

// unfit says that the server did not accept the request's content.
func unfit(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}

// final says that a repeat would be answered the same.
func final(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return status >= 400 && status <= 499
	}
}

func hasCode(err error, code problem.Code) bool {
	p, ok := problem.From(err)
	return ok && p.Code == code
}

// sendOnce makes one call of the kind decided on.
func (r *run) sendOnce(l *lease, d decision) error {
	ctx, cancel := context.WithTimeout(r.base, outcomeTry)
	defer cancel()
	id, token, c := l.job.ID, l.job.LeaseToken, r.worker.client
	var err error
	switch d.kind {
	case api.KindComplete:
		_, err = c.Complete(ctx, id, api.CompleteRequest{LeaseToken: token, Result: d.result})
	case api.KindSnooze:
		delay := d.delay.Milliseconds()
		_, err = c.Snooze(ctx, id, api.SnoozeRequest{LeaseToken: token, DelayMS: &delay})
	case api.KindRelease:
		_, err = c.Release(ctx, id, api.ReleaseRequest{LeaseToken: token})
	default:
		request := api.FailRequest{LeaseToken: token, Error: jobError(d.err), Permanent: d.permanent}
		if d.retryAfter != nil {
			after := d.retryAfter.Milliseconds()
			request.RetryAfterMS = &after
		}
		_, err = c.Fail(ctx, id, request)
	}
	return err
}
