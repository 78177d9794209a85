package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/worker"
)

type declinedError struct{ err error }

func (e *declinedError) Error() string { return "declined: " + e.err.Error() }
func (e *declinedError) Unwrap() error { return e.err }

type silentError struct{ declinedError }

func (*silentError) ErrorType() string { return "" }

type genericError[T any] struct{}

func (genericError[T]) Error() string { return "generic" }

// TestTheTypeOfAnError: what a list of dead letters can be sorted by.
func TestTheTypeOfAnError(t *testing.T) {
	t.Parallel()
	plain, syntax := errors.New("boom"), &json.SyntaxError{}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"errors.New":                      {plain, "error"},
		"a cause without a type":          {fmt.Errorf("read: %w", fmt.Errorf("again: %w", plain)), "error"},
		"fmt.Errorf without a cause":      {fmt.Errorf("no %s", "cause"), "error"},
		"two causes without a type":       {errors.Join(plain, fmt.Errorf("%w, %w", plain, plain)), "error"},
		"behind wrappers":                 {fmt.Errorf("a: %w", fmt.Errorf("b: %w", syntax)), "json.SyntaxError"},
		"the second of two":               {errors.Join(plain, fmt.Errorf("b: %w", syntax)), "json.SyntaxError"},
		"the first of two":                {fmt.Errorf("%w, %w", &declinedError{plain}, syntax), "worker_test.declinedError"},
		"the outermost with a name":       {fmt.Errorf("a: %w", &declinedError{syntax}), "worker_test.declinedError"},
		"around one without a type":       {&fs.PathError{Op: "open", Path: "x", Err: plain}, "fs.PathError"},
		"no pointer":                      {context.DeadlineExceeded, "context.deadlineExceededError"},
		"a generic type":                  {genericError[int]{}, "worker_test.genericError[int]"},
		"a type without a name":           {struct{ error }{plain}, "error"},
		"the SDK's own marks":             {worker.Permanent(worker.RetryAfter(plain, 0)), "error"},
		"behind the SDK's own marks":      {worker.RetryAfter(fmt.Errorf("a: %w", syntax), 0), "json.SyntaxError"},
		"what it says itself":             {fmt.Errorf("a: %w", &declinedError{namedError{}}), "card_declined"},
		"what says nothing of itself":     {&silentError{declinedError{syntax}}, "worker_test.silentError"},
		"nothing, in a list that has nil": {struct{ listError }{listError{nil, plain}}, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newBedOutside(t)
			worker.Handle(w, "greet", func(context.Context, *worker.RawJob) (any, error) { return nil, test.err })
			sent, _ := w.Attempt(t.Context(), api.ClaimedJob{Type: "greet"})
			if sent.Error == nil || sent.Error.Type != test.want {
				t.Errorf("sent %+v, want the type %s", sent.Error, test.want)
			}
		})
	}
}

// listError may hold nil, as errors.Is and errors.As allow.
type listError []error

func (l listError) Error() string   { return fmt.Sprint(len(l)) + " errors" }
func (l listError) Unwrap() []error { return l }

// A panic stays a panic, whatever it was with and wherever it lies.
func TestTheTypeOfAPanic(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"a text": "oh no", "an error": &json.SyntaxError{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newBedOutside(t)
			w.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
				return func(ctx context.Context, job *worker.RawJob) (json.RawMessage, error) {
					result, err := next(ctx, job)
					return result, err
				}
			})
			worker.Handle(w, "greet", func(context.Context, *worker.RawJob) (any, error) { panic(value) })
			sent, err := w.Attempt(t.Context(), api.ClaimedJob{Type: "greet"})
			if sent.Error == nil || sent.Error.Type != "panic" || !strings.Contains(sent.Error.Stack, "errors_test.go") {
				t.Errorf("sent %+v (%v)", sent.Error, err)
			}
		})
	}
}
