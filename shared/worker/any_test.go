package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/worker"
)

// named is a handler whose result is its name and the job's type.
func named(name string) worker.HandlerFunc {
	return func(_ context.Context, job *worker.RawJob) (json.RawMessage, error) {
		return json.RawMessage(fmt.Sprintf("%q", name+": "+job.Type)), nil
	}
}

func own(_ context.Context, job *worker.RawJob) (string, error) { return "own: " + job.Type, nil }

func TestAnyTypeWithoutAHandlerOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(w *worker.Worker){
		"given first": func(w *worker.Worker) { w.HandleAny(named("any")); worker.Handle(w, "greet", own) },
		"given last":  func(w *worker.Worker) { worker.Handle(w, "greet", own); w.HandleAny(named("any")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t)
				give(b.worker)
				greet, other := b.submit("greet", `{}`), b.submit("other", `{}`)
				b.run(t)
				b.finish(t)
				results := map[string]string{}
				for _, sent := range b.outcomes {
					results[sent.jobID] = string(sent.body.Result)
				}
				if len(results) != 2 || results[greet] != `"own: greet"` || results[other] != `"any: other"` {
					t.Errorf("the results are %v", results)
				}
			})
		})
	}
}

// A worker that takes whatever comes needs no other handler, gets the payload as
// it was sent, and has middleware around it like any.
func TestAnyTypeAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		b.worker.HandleAny(func(_ context.Context, job *worker.RawJob) (json.RawMessage, error) { return job.Payload, nil })
		b.worker.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
			return func(ctx context.Context, job *worker.RawJob) (json.RawMessage, error) {
				result, err := next(ctx, job)
				return json.RawMessage(`[` + string(result) + `]`), err
			}
		})
		b.submit("other", `{"n":1.10}`)
		b.run(t)
		b.finish(t)
		if got := b.only(t); string(got.body.Result) != `[{"n":1.10}]` {
			t.Errorf("sent %s", asJSON(t, got.body))
		}
	})
}

func TestRunSaysWhatIsWrongWithAHandlerForAnyType(t *testing.T) {
	t.Parallel()
	for want, give := range map[string]func(w *worker.Worker){
		"the handler for any type is nil":         func(w *worker.Worker) { w.HandleAny(nil) },
		"there are two handlers for any type":     func(w *worker.Worker) { w.HandleAny(named("one")); w.HandleAny(named("other")) },
		`"" cannot be a job's type`:               func(w *worker.Worker) { worker.Handle(w, "", own) }, // no back door to it
		"the handler for any type is nil\nworker": func(w *worker.Worker) { w.HandleAny(nil); worker.Handle[int, int](w, "x", nil) },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			w := newBedOutside(t)
			worker.Handle(w, "greet", own)
			give(w)
			if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Run = %v", err)
			}
		})
	}
}

// Run cannot say any more what comes after it; the log does.
func TestAHandlerForAnyTypeAfterRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		worker.Handle(b.worker, "greet", own)
		b.run(t)
		b.worker.HandleAny(named("late"))
		b.submit("other", `{}`)
		pass(0)
		b.finish(t)
		checkLine(t, b, b.only(t).jobID, "snoozed")
		if log := b.log.String(); !strings.Contains(log, "a handler given after Run is not used") {
			t.Errorf("the log does not say so: %s", log)
		}
	})
}
