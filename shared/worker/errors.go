package worker

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Causes of a handler's context, to be had with context.Cause.
var (
	// ErrLeaseLost: the job is no longer this worker's, and may run elsewhere.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrCancelRequested: the cancellation of the job was requested.
	ErrCancelRequested = errors.New("the job's cancellation was asked for")
	// ErrTimeout: the attempt has lasted for the job's timeout_ms, or the handler's own
	// (WithTimeout).
	ErrTimeout = errors.New("the attempt has used up its time")
	// ErrStopping: the worker stops, and its grace is over.
	ErrStopping = errors.New("the worker is stopping")
)

var (
	errNoHandler = errors.New("no handler")
	errAbandoned = errors.New("the handler did not return after its context had ended")
	errGoexit    = errors.New("the handler ended its goroutine (runtime.Goexit) instead of returning")
)

// Permanent marks an error as not worth a retry: the job becomes a dead letter
// at once. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// Snooze returned as a handler's error puts the job back for d without
// spending the attempt, to wait for something. Wrapped with a reason,
// as in fmt.Errorf("rate limited: %w", Snooze(d)), the job shows it as its last error.
func Snooze(d time.Duration) error {
	return &snoozeError{min(max(d, 0), api.MaxDelay)}
}

// Snoozed says whether a handler's error puts the job back, by Snooze, Throttled or Wait, and so is no failure: for
// middleware that distinguishes the two.
func Snoozed(err error) bool {
	_, snoozes := errors.AsType[*snoozeError](err)
	_, waits := errors.AsType[*waitError](err)
	return snoozes || waits
}

// RetryAfter fails the attempt and asks for the next one after d, instead of
// the job's backoff; at most 7 days. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{err, min(max(d, 0), api.MaxBackoff)}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

type snoozeError struct{ delay time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.delay) }

type retryAfterError struct {
	err   error
	delay time.Duration
}

func (e *retryAfterError) Error() string { return e.err.Error() }
func (e *retryAfterError) Unwrap() error { return e.err }

// kindError is an error of the worker itself, with the type it is reported under.
type kindError struct {
	kind string
	err  error
}

func (e *kindError) Error() string     { return e.err.Error() }
func (e *kindError) Unwrap() error     { return e.err }
func (e *kindError) ErrorType() string { return e.kind }

// panicError is what a handler panicked with.
type panicError struct {
	value any
	stack string
}

func (e *panicError) Error() string   { return fmt.Sprint(e.value) }
func (*panicError) ErrorType() string { return "panic" }

// snoozeReason is why a job is put back, as the server stores it: what the snooze was
// wrapped with. Nil without a reason.
func snoozeReason(err error) *api.JobError {
	snoozed, ok := errors.AsType[*snoozeError](err)
	if !ok {
		return nil
	}
	reason := strings.TrimRight(strings.TrimSuffix(err.Error(), snoozed.Error()), ": \n")
	if reason == "" {
		return nil
	}
	reported := api.JobError{Type: "snoozed", Message: reason}
	if errors.Is(err, errNoHandler) {
		reported.Type = "no_handler"
	}
	if throttleOf(err) != nil {
		reported.Type = "throttled"
	}
	return reported.Clean()
}

// jobError is err as the server stores it. A panic inside carries its stack.
func jobError(err error) *api.JobError {
	reported := api.JobError{Type: errorType(err), Message: err.Error()}
	if panicked, ok := errors.AsType[*panicError](err); ok {
		reported.Stack = panicked.stack
	}
	return reported.Clean()
}

// errorType is what err says of itself with ErrorType, else the Go type of the
// outermost error that has one of its own, else "error".
func errorType(err error) string {
	if named, ok := errors.AsType[interface {
		error
		ErrorType() string
	}](err); ok && named.ErrorType() != "" {
		return named.ErrorType()
	}
	return cmp.Or(ownType(err), "error")
}

// ownType is the type of the first error that has one of its own, in the order of
// errors.Is; empty if none has.
func ownType(err error) string {
	if err == nil {
		return ""
	}
	if name := typeName(err); name != "" {
		return name
	}
	switch wrapper := err.(type) { //nolint:errorlint // each error of the tree is looked at
	case interface{ Unwrap() error }:
		return ownType(wrapper.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			if name := ownType(inner); name != "" {
				return name
			}
		}
	}
	return ""
}

// typeName is empty for types without meaning: those of errors.New, errors.Join,
// fmt.Errorf and the like, and this package's marks.
func typeName(err error) string {
	switch err.(type) { //nolint:errorlint // of err alone
	case *permanentError, *retryAfterError:
		return ""
	}
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case "errors", "fmt", "github.com/pkg/errors", "golang.org/x/xerrors":
		return ""
	}
	if t.Name() == "" {
		return ""
	}
	return t.String()
}
