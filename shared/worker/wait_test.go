package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// A wait has the checkpoint, the jobs and the signals with it, in one request; the next attempt reads what has woken the job.
func TestAWaitIsOneRequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		type draft struct{ No int }
		type answer struct{ By string }
		worker.Handle(b.worker, "review", func(_ context.Context, job *worker.RawJob) (any, error) {
			if job.WokenBy == "" {
				if there, err := job.Signal("approved", nil); there || err != nil {
					t.Errorf("there is a signal: %v", err)
				}
				job.Then(api.SubmitRequest{Type: "mail"})
				return nil, errors.Join(job.Checkpoint(draft{1}), func() error { rest(10 * time.Millisecond); return nil }(), job.Checkpoint(draft{7}),
					job.ThenSignal("job-9", "asked", map[string]int{"no": 7}), job.ThenSignal("job-8", "asked", nil), worker.Wait(time.Hour, "approved"))
			}
			var got answer
			var kept draft
			there, err := job.Signal("approved", &got)
			_, broken := job.Restore(&kept)
			if !there || errors.Join(err, broken) != nil || job.WokenBy != api.WokenBySignal {
				t.Errorf("%v, %v, %v, %q", there, err, broken, job.WokenBy)
			}
			var number int
			if there, err := job.Signal("approved", &number); !there || err == nil || !strings.Contains(err.Error(), `the data of signal "approved" cannot be read`) {
				t.Errorf("an object as a number: %v, %v", there, err)
			}
			if there, err := job.Signal("empty", &number); !there || err != nil || number != 0 {
				t.Errorf("a signal without data: %v, %v, %d", there, err, number)
			}
			return fmt.Sprint(got.By, kept.No), nil
		})
		id := b.submit("review", `{}`)
		b.run(t)
		pass(5 * time.Second)
		b.mu.Lock()
		j := b.find(id)
		if j.state != api.StateWaiting || j.Attempt != 0 {
			t.Errorf("the job is %s, of attempt %d", j.state, j.Attempt)
		}
		j.state, j.WokenBy = api.StateQueued, new(api.WokenBySignal)
		j.Signals = []api.ClaimedSignal{{Name: "empty", Data: json.RawMessage("null")}, {Name: "approved", Data: json.RawMessage(`{"by":"ada"}`)}}
		b.wake()
		b.mu.Unlock()
		pass(5 * time.Second)
		b.finish(t)
		if len(b.outcomes) != 2 || string(b.outcomes[1].body.Result) != `"ada7"` {
			t.Fatalf("sent %s", asJSON(t, b.outcomes))
		}
		sent := b.outcomes[0].body
		sent.LeaseToken = ""
		hour := int64(3_600_000)
		if got, want := asJSON(t, sent), asJSON(t, api.OutcomeRequest{
			For: []string{"approved"}, TimeoutMS: &hour, Checkpoint: json.RawMessage(`{"No":7}`), Submit: []api.SubmitRequest{{Type: "mail"}},
			Signal: []api.OutcomeSignal{{JobID: "job-9", Name: "asked", Data: json.RawMessage(`{"no":7}`)}, {JobID: "job-8", Name: "asked"}},
		}); got != want {
			t.Errorf("sent %s\nwant %s", got, want)
		}
		for _, beat := range b.beats {
			for _, report := range beat.reports {
				if string(report.Checkpoint) == `{"No":7}` {
					t.Error("the last checkpoint was sent on its own too")
				}
			}
		}
	})
}

// The signals of an attempt that fails are not sent.
func TestAFailureSignalsNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		worker.Handle(b.worker, "greet", func(_ context.Context, job *worker.RawJob) (any, error) {
			return nil, errors.Join(job.ThenSignal("job-9", "greeted", nil), worker.Permanent(errBoom))
		})
		b.submit("greet", `{}`)
		b.run(t)
		b.finish(t)
		if got := b.only(t); got.kind != api.KindFail || got.body.Signal != nil {
			t.Errorf("sent %s", asJSON(t, got.body))
		}
	})
}

func TestARefusedWaitFailsTheAttempt(t *testing.T) {
	for name, test := range map[string]struct {
		refusal   problem.Code
		field     string
		result    error
		kind      string
		permanent bool
	}{
		"the wait's own":                {problem.InvalidRequest, "for", worker.Wait(time.Hour, "a b"), "wait", true},
		"a signal of an ended job":      {problem.JobTerminal, "signal[0]", nil, "signal", true},
		"a signal of no job":            {problem.NotFound, "signal[0]", worker.Wait(time.Hour), "signal", true},
		"a key that must not signal":    {problem.Forbidden, "", nil, "signal", false},
		"a signal among other outcomes": {problem.InvalidRequest, "outcomes[0].signal[0].name", nil, "signal", true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t)
				b.spoilWith(func(_ string, w http.ResponseWriter, r *http.Request) bool {
					if kind := r.PathValue("kind"); kind != api.KindComplete && kind != api.KindWait {
						return false
					}
					refusal := problem.New(test.refusal, "no")
					if test.field != "" {
						refusal.Errors = []problem.FieldError{{Field: test.field, Message: "is wrong"}}
					}
					refusal.Write(w)
					return true
				})
				worker.Handle(b.worker, "greet", func(_ context.Context, job *worker.RawJob) (any, error) {
					return nil, errors.Join(job.ThenSignal("job-9", "greeted", nil), test.result)
				})
				b.submit("greet", `{}`)
				b.run(t)
				b.finish(t)
				got := b.only(t)
				if got.kind != api.KindFail || got.body.Permanent != test.permanent || got.body.Error.Type != test.kind || !strings.Contains(got.body.Error.Message, test.field) {
					t.Errorf("sent %s", asJSON(t, got.body))
				}
			})
		})
	}
}

func TestDataOfASignal(t *testing.T) {
	t.Parallel()
	job := &worker.RawJob{}
	for want, data := range map[string]any{"unsupported type": func() {}, "has 65538 bytes as JSON": strings.Repeat("x", api.MaxSignalData)} {
		if err := job.ThenSignal("job-9", "greeted", data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := job.ThenSignal("job-9", "greeted", 7); err != nil { // nobody has made the job
		t.Error(err)
	}
}

// A wait puts the job back as a snooze does, for middleware that looks for failures.
func TestAWaitIsNoFailure(t *testing.T) {
	t.Parallel()
	if !worker.Snoozed(fmt.Errorf("asked: %w", worker.Wait(time.Hour, "approved"))) {
		t.Error("a wait is a failure")
	}
}
