package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker/internal/outcomes"
)

// Words for the outcome in the log line.
const (
	outcomeLost   = "lost"   // the lease was no longer ours; nothing was changed
	outcomeUnsent = "unsent" // it could not be sent; the lease will expire
)

// outcomeWord gives the word for an outcome that the server has accepted.
func outcomeWord(kind string) string {
	switch kind {
	case api.KindComplete:
		return "completed"
	case api.KindSnooze:
		return "snoozed"
	case api.KindRelease:
		return "released"
	case api.KindWait:
		return "waiting"
	default:
		return "failed"
	}
}

// decision is the outcome of an attempt before it is sent.
type decision struct {
	// kind is the outcome's; empty: nothing is sent.
	kind       string
	result     json.RawMessage
	err        error
	permanent  bool
	retryAfter *time.Duration
	delay      time.Duration
	wait       *waitError
	checkpoint json.RawMessage
	used       api.Amounts
	submit     []api.SubmitRequest
	signal     []api.OutcomeSignal
}

// request is the decision as it is sent; without a kind nothing is sent, and it is
// the zero value.
func (d *decision) request(jobID, token string) api.OutcomeRequest {
	if d.kind == "" {
		return api.OutcomeRequest{}
	}
	request := api.OutcomeRequest{JobID: jobID, Kind: d.kind, LeaseToken: token, Used: d.used}
	switch d.kind {
	case api.KindComplete:
		request.Result, request.Submit, request.Signal = d.result, d.submit, d.signal
	case api.KindSnooze:
		delay := d.delay.Milliseconds()
		request.DelayMS, request.Error, request.Throttle = &delay, snoozeReason(d.err), throttleOf(d.err)
	case api.KindWait:
		timeout := d.wait.timeout.Milliseconds()
		request.For, request.Mode, request.TimeoutMS, request.Checkpoint = d.wait.signals, d.wait.mode(), &timeout, d.checkpoint
		request.Submit, request.Signal = d.submit, d.signal
	case api.KindFail:
		request.Error, request.Permanent = jobError(d.err), d.permanent
		if d.retryAfter != nil {
			after := d.retryAfter.Milliseconds()
			request.RetryAfterMS = &after
		}
	}
	return request
}

// decide turns what the handler returned, and why its context ended (nil if it
// had not), into an outcome. What the handler returns explicitly (a result, a
// snooze, a wait, a permanent failure) takes precedence over the cause.
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
	if wait, ok := errors.AsType[*waitError](err); ok {
		return decision{kind: api.KindWait, wait: wait, err: err}
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

// withCause wraps the handler's error with the cause, once.
func withCause(err, cause error) error {
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// send passes the decision to the outbox and waits until the server has answered
// it, or the outbox gives up.
func (r *run) send(l *lease, d decision) ending {
	if d.kind == "" {
		return ending{word: outcomeLost, decision: d, err: d.err}
	}
	response := r.sendOutcome(l, &d)
	if failed, ok := d.refused(response.Err); ok { // the attempt still has to end
		d = failed
		response = r.sendOutcome(l, &d)
	}
	e := ending{decision: d, answer: response.Outcome}
	switch err := response.Err; {
	case err == nil:
		e.word, e.err = outcomeWord(d.kind), d.err
	case hasCode(err, problem.LeaseLost):
		e.word, e.err = outcomeLost, errors.Join(d.err, ErrLeaseLost)
	default:
		e.word, e.err = outcomeUnsent, errors.Join(d.err, fmt.Errorf("%s could not be sent: %w", d.kind, err))
	}
	return e
}

// refused is the failure in place of a complete or a wait that was refused for itself, or for the jobs and signals that it sends.
func (d *decision) refused(err error) (failed decision, ok bool) {
	status := client.Status(err)
	switch {
	case d.kind != api.KindComplete && d.kind != api.KindWait:
		return failed, false
	case len(d.submit) > 0 && (status == http.StatusForbidden || outcomes.Final(status) && names(err, "submit")):
		err = &kindError{"submit", fmt.Errorf("the jobs to submit were refused: %w%s", err, fieldsOf(err))}
	case len(d.signal) > 0 && (status == http.StatusForbidden || outcomes.Final(status) && names(err, "signal")):
		err = &kindError{"signal", fmt.Errorf("the signals of other jobs were refused: %w%s", err, fieldsOf(err))}
	case rejectsContent(status) && d.kind == api.KindWait:
		err = &kindError{"wait", fmt.Errorf("the wait was refused: %w%s", err, fieldsOf(err))}
	case rejectsContent(status):
		err = resultError(fmt.Errorf("the result was refused: %w", err))
	default:
		return failed, false
	}
	// A key can be given the scope that it lacks.
	return decision{kind: api.KindFail, permanent: status != http.StatusForbidden, err: err, used: d.used}, true
}

// fieldsOf are the fields that a problem names and its own text does not.
func fieldsOf(err error) (text string) {
	p, ok := problem.From(err)
	if !ok {
		return ""
	}
	for i := range p.Errors {
		if e := &p.Errors[i]; !strings.Contains(err.Error(), e.Field) {
			text += "; " + e.Field + ": " + e.Message
		}
	}
	return text
}

// names says that a problem is one of a field, or of what is in it.
func names(err error, field string) bool {
	p, ok := problem.From(err)
	return ok && slices.ContainsFunc(p.Errors, func(e problem.FieldError) bool {
		return strings.HasPrefix(e.Field, field) || strings.Contains(e.Field, "]."+field) // among several outcomes
	})
}

func (r *run) sendOutcome(l *lease, d *decision) outcomes.Answer {
	end := func() time.Time { return r.leases.reapedBy(l) }
	return r.outbox.Send(r.base, d.request(l.job.ID, l.job.LeaseToken), end, traceOf(l)...)
}

// traceOf gives the trace context and the correlation id of a lease's job.
func traceOf(l *lease) []client.CallOption {
	return []client.CallOption{client.WithCorrelationID(orEmpty(l.job.CorrelationID)), client.WithTraceparent(orEmpty(l.job.Traceparent))}
}

// rejectsContent says that the server did not accept the request's content.
func rejectsContent(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge || status == http.StatusUnprocessableEntity
}

func hasCode(err error, code problem.Code) bool {
	p, ok := problem.From(err)
	return ok && p.Code == code
}
