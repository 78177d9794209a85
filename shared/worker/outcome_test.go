package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker"
)

type greeting struct {
	Name string `json:"name"`
}

type namedError struct{}

func (namedError) Error() string     { return "named" }
func (namedError) ErrorType() string { return "card_declined" }

// TestWhatAHandlerReturns: doc.go's table.
func TestWhatAHandlerReturns(t *testing.T) {
	t.Parallel()
	raw := func(err error) func(context.Context, *worker.Job[greeting]) (string, error) {
		return func(context.Context, *worker.Job[greeting]) (string, error) { return "", err }
	}
	minute := int64(60_000)
	for name, test := range map[string]struct {
		payload string
		handler func(context.Context, *worker.Job[greeting]) (string, error)
		kind    string
		want    api.OutcomeRequest // without the token
		stack   string
		word    string
	}{
		"a result": {`{"name":"<Ada>","unknown":1}`, func(_ context.Context, job *worker.Job[greeting]) (string, error) {
			return "Hello, " + job.Payload.Name, nil
		}, api.KindComplete, api.OutcomeRequest{Result: json.RawMessage(`"Hello, <Ada>"`)}, "", "completed"},
		"a null payload": {`null`, func(_ context.Context, job *worker.Job[greeting]) (string, error) {
			return job.Payload.Name, nil
		}, api.KindComplete, api.OutcomeRequest{Result: json.RawMessage(`""`)}, "", "completed"},
		"an error": {
			`{}`, raw(fmt.Errorf("read: %w", io.ErrUnexpectedEOF)), api.KindFail,
			api.OutcomeRequest{Error: &api.JobError{Type: "error", Message: "read: unexpected EOF"}},
			"", "failed",
		},
		"an error with a type": {
			`{}`, raw(fmt.Errorf("pay: %w", namedError{})), api.KindFail,
			api.OutcomeRequest{Error: &api.JobError{Type: "card_declined", Message: "pay: named"}},
			"", "failed",
		},
		"a Go type": {
			`{}`, raw(&json.UnsupportedValueError{Str: "x"}), api.KindFail,
			api.OutcomeRequest{Error: &api.JobError{Type: "json.UnsupportedValueError", Message: "json: unsupported value: x"}},
			"", "failed",
		},
		"permanent": {
			`{}`, raw(fmt.Errorf("outer: %w", worker.Permanent(io.EOF))), api.KindFail,
			api.OutcomeRequest{Permanent: true, Error: &api.JobError{Type: "error", Message: "outer: EOF"}},
			"", "failed",
		},
		"retry after": {
			`{}`, raw(worker.RetryAfter(io.EOF, time.Minute)), api.KindFail,
			api.OutcomeRequest{RetryAfterMS: &minute, Error: &api.JobError{Type: "error", Message: "EOF"}},
			"", "failed",
		},
		"snooze": {`{}`, raw(worker.Snooze(time.Minute)), api.KindSnooze, api.OutcomeRequest{DelayMS: &minute}, "", "snoozed"},
		"snooze for a reason": {
			`{}`, raw(fmt.Errorf("rate limited: %w", worker.Snooze(time.Minute))), api.KindSnooze,
			api.OutcomeRequest{DelayMS: &minute, Error: &api.JobError{Type: "snoozed", Message: "rate limited"}},
			"", "snoozed",
		},
		"snooze with the reason behind it": {
			`{}`, raw(fmt.Errorf("%w, the account is locked", worker.Snooze(time.Minute))), api.KindSnooze,
			api.OutcomeRequest{DelayMS: &minute, Error: &api.JobError{Type: "snoozed", Message: "snoozed for 1m0s, the account is locked"}},
			"", "snoozed",
		},
		"a wait": {
			`{}`, raw(fmt.Errorf("asked: %w", worker.Wait(time.Minute, "approved", "rejected"))), api.KindWait,
			api.OutcomeRequest{For: []string{"approved", "rejected"}, TimeoutMS: &minute},
			"", "waiting",
		},
		"a wait for all": {
			`{}`, raw(worker.WaitAll(time.Minute, "paid", "packed")), api.KindWait,
			api.OutcomeRequest{For: []string{"paid", "packed"}, Mode: api.WaitAll, TimeoutMS: &minute},
			"", "waiting",
		},
		"a sleep": {`{}`, raw(worker.Wait(time.Minute)), api.KindWait, api.OutcomeRequest{TimeoutMS: &minute}, "", "waiting"},
		"a panic": {
			`{}`, func(context.Context, *worker.Job[greeting]) (string, error) { panic("oh no") }, api.KindFail,
			api.OutcomeRequest{Error: &api.JobError{Type: "panic", Message: "oh no"}},
			"outcome_test.go", "failed",
		},
		"Goexit": {
			`{}`, func(context.Context, *worker.Job[greeting]) (string, error) { runtime.Goexit(); return "", nil }, api.KindFail,
			api.OutcomeRequest{Error: &api.JobError{Type: "goexit", Message: "the handler ended its goroutine (runtime.Goexit) instead of returning"}},
			"", "failed",
		},
		"a payload that does not fit": {`{"name":7}`, raw(nil), api.KindFail, api.OutcomeRequest{Permanent: true, Error: &api.JobError{
			Type: "payload", Message: "the payload does not fit the handler: json: cannot unmarshal number into Go struct field greeting.name of type string",
		}}, "", "failed"},
		"a result too large": {`{}`, func(context.Context, *worker.Job[greeting]) (string, error) {
			return strings.Repeat("x", api.MaxResult), nil
		}, api.KindFail, api.OutcomeRequest{Permanent: true, Error: &api.JobError{
			Type: "result", Message: "the result has 262146 bytes, and 262144 are allowed",
		}}, "", "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t)
				worker.Handle(b.worker, "greet", test.handler)
				id := b.submit("greet", test.payload)
				b.run(t)
				b.finish(t)
				got := b.only(t)
				if got.kind != test.kind || got.jobID != id {
					t.Fatalf("sent %s for %s", got.kind, got.jobID)
				}
				got.body.LeaseToken = ""
				if e := got.body.Error; e != nil {
					if !strings.Contains(e.Stack, test.stack) {
						t.Errorf("the stack does not name %s: %s", test.stack, e.Stack)
					}
					e.Stack = ""
				}
				if sent, want := asJSON(t, got.body), asJSON(t, test.want); sent != want {
					t.Errorf("sent %s\nwant %s", sent, want)
				}
				checkLine(t, b, id, test.word)
			})
		})
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func checkLine(t *testing.T, b *bed, id, word string) {
	t.Helper()
	lines := b.log.attempts(t)
	if len(lines) != 1 || lines[0]["outcome"] != word || lines[0]["job_id"] != id {
		t.Fatalf("attempt lines are %v, want one with outcome %s", lines, word)
	}
	for _, key := range []string{"job_id", "type", "queue", "attempt", "outcome", "duration_ms", "error"} {
		if _, ok := lines[0][key]; !ok {
			t.Errorf("the line has no %q: %v", key, lines[0])
		}
	}
}

// The types that have a handler are claimed; with more of them than a claim can name, all types.
func TestAClaimNamesTheTypes(t *testing.T) {
	for _, c := range []struct {
		handlers int
		any      bool
		want     []string
	}{{2, false, []string{"t0", "t1"}}, {2, true, nil}, {api.MaxTypesPerCall + 1, false, nil}} {
		t.Run(fmt.Sprint(c.handlers, c.any), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t)
				for i := range c.handlers {
					worker.Handle(b.worker, fmt.Sprint("t", i), func(context.Context, *worker.Job[any]) (any, error) { return nil, nil })
				}
				if c.any {
					b.worker.HandleAny(func(context.Context, *worker.RawJob) (json.RawMessage, error) { return nil, nil })
				}
				b.submit("t0", `{}`)
				b.run(t)
				b.finish(t)
				if got := b.claims[0].Types; !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) {
					t.Errorf("the claim names %q, want %q", got, c.want)
				}
			})
		})
	}
}

// A server may give a job of a type that the worker did not ask for.
func TestAnUnknownTypeIsSnoozed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		worker.Handle(b.worker, "greet", block(nil))
		id := b.submit("from-the-next-version", `{}`)
		b.run(t)
		b.finish(t)
		if got := b.only(t); got.kind != api.KindSnooze || *got.body.DelayMS != 30_000 {
			t.Errorf("sent %s", asJSON(t, got.body))
		} else if e := got.body.Error; e == nil || e.Type != "no_handler" || e.Message != "worker "+b.worker.ID()+` has no handler for type "from-the-next-version"` {
			t.Errorf("the reason sent is %+v", e)
		}
		checkLine(t, b, id, "snoozed")
		if !strings.Contains(b.log.String(), `no handler for type \"from-the-next-version\": snoozed for 30s`) {
			t.Errorf("the log does not say why: %s", b.log.String())
		}
	})
}

func TestAnOutcomeIsSentUntilItIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		start := time.Now()
		b.spoilWith(func(route string, w http.ResponseWriter, _ *http.Request) bool {
			if !strings.Contains(route, "{kind}") || time.Since(start) > 2*time.Minute {
				return false
			}
			problem.New(problem.Internal, "").Write(w)
			return true
		})
		worker.Handle(b.worker, "greet", func(context.Context, *worker.RawJob) (any, error) { return 1, nil })
		id := b.submit("greet", `{}`)
		b.run(t)
		pass(3 * time.Minute) // heartbeats keep the lease meanwhile
		if got := b.state(id); got != api.StateCompleted {
			t.Errorf("the job is %s", got)
		}
		b.finish(t)
	})
}

func TestAnOutcomeIsGivenUpWhenTheLeaseIsOver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		b.spoilWith(func(route string, w http.ResponseWriter, _ *http.Request) bool {
			if strings.Contains(route, "claims") || route == "POST /v1/workers" {
				return false
			}
			problem.New(problem.CoreUnavailable, "").Write(w)
			return true
		})
		worker.Handle(b.worker, "greet", func(context.Context, *worker.RawJob) (any, error) { return 1, nil })
		id := b.submit("greet", `{}`)
		b.run(t)
		pass(50 * time.Second) // certain only when a whole length after the lease has passed
		if lines := b.log.attempts(t); len(lines) != 0 {
			t.Errorf("given up after 50 s: %v", lines)
		}
		pass(20 * time.Second)
		if lines := b.log.attempts(t); len(lines) == 0 || lines[0]["outcome"] != "unsent" || lines[0]["job_id"] != id {
			t.Errorf("after 70 s the lines are %v", lines)
		}
		b.finish(t)
	})
}

func TestARefusedResultFailsTheAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		b.spoilWith(func(_ string, w http.ResponseWriter, r *http.Request) bool {
			if r.PathValue("kind") != api.KindComplete {
				return false
			}
			problem.New(problem.PayloadTooLarge, "the result is nested too deep").Write(w)
			return true
		})
		worker.Handle(b.worker, "greet", func(context.Context, *worker.RawJob) (any, error) { return 1, nil })
		b.submit("greet", `{}`)
		b.run(t)
		b.finish(t)
		if got := b.only(t); got.kind != api.KindFail || !got.body.Permanent || got.body.Error.Type != "result" {
			t.Errorf("sent %s", asJSON(t, got.body))
		}
	})
}

func TestMiddlewareWrapsInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		var order []string
		trace := func(name string) func(worker.HandlerFunc) worker.HandlerFunc {
			return func(next worker.HandlerFunc) worker.HandlerFunc {
				return func(ctx context.Context, job *worker.RawJob) (json.RawMessage, error) {
					order = append(order, name)
					job.Payload = json.RawMessage(`{"name":"` + name + `"}`)
					result, err := next(ctx, job)
					order = append(order, name+" sees "+string(result))
					return result, err
				}
			}
		}
		b.worker.Use(trace("outer"))
		worker.Handle(b.worker, "greet", func(_ context.Context, job *worker.Job[greeting]) (string, error) {
			if string(job.Raw) != `{"name":"sent"}` {
				t.Errorf("Raw is %s", job.Raw)
			}
			return job.Payload.Name, nil
		})
		b.worker.Use(trace("inner"))
		b.submit("greet", `{"name":"sent"}`)
		b.run(t)
		b.finish(t)
		if got, want := strings.Join(order, ", "), `outer, inner, inner sees "inner", outer sees "inner"`; got != want {
			t.Errorf("the order is %s, want %s", got, want)
		}
	})
}

func TestErrorsOfNil(t *testing.T) {
	t.Parallel()
	if worker.Permanent(nil) != nil || worker.RetryAfter(nil, time.Second) != nil {
		t.Error("nil became an error")
	}
	if !errors.Is(worker.Permanent(worker.RetryAfter(io.EOF, 0)), io.EOF) {
		t.Error("the wrapped error is not found")
	}
}
