package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
	"github.com/forgequeue/forgequeue/shared/worker/workertest"
)

// hello is arguments that name the type of their jobs.
type hello struct {
	Name string `json:"name"`
}

func (*hello) JobType() string { return "hello" }

// With a pointer the zero value is nil; its JobType is called all the same.
func sayHello(_ context.Context, job *worker.Job[*hello]) (string, error) {
	return "Hello, " + job.Payload.Name, nil
}

func TestAddTakesTheTypeFromTheArguments(t *testing.T) {
	t.Parallel()
	w, err := worker.New(worker.Options{Client: workertest.Client()})
	if err != nil {
		t.Fatal(err)
	}
	worker.Add(w, sayHello)
	for _, jobType := range []string{"hello", ""} {
		if got := workertest.RunWorker(t.Context(), w, jobType, &hello{"Ada"}); string(got.Result) != `"Hello, Ada"` {
			t.Errorf("the outcome is %v", got)
		}
	}
}

func TestHandlersThatAreGivenWrongly(t *testing.T) {
	t.Parallel()
	for want, give := range map[string]func(w *worker.Worker){
		"JobType of the zero value of client.JobArgs panics": func(w *worker.Worker) {
			worker.Add(w, func(context.Context, *worker.Job[client.JobArgs]) (any, error) { return nil, nil })
		},
		`the handler for "hello" is nil`:               func(w *worker.Worker) { worker.Add[*hello, string](w, nil) },
		"WithTimeout(0s): must be more than 0":         func(w *worker.Worker) { worker.Add(w, sayHello, worker.WithTimeout(0)) },
		"WithRetry: the function is nil":               func(w *worker.Worker) { worker.Add(w, sayHello, worker.WithRetry(nil)) },
		"WithConcurrency(0): must be between 1 and":    func(w *worker.Worker) { worker.Add(w, sayHello, worker.WithConcurrency(0)) },
		"WithConcurrency(-1)":                          func(w *worker.Worker) { worker.Handle(w, "a", own, worker.WithConcurrency(-1)) },
		`"hello" has two handlers`:                     func(w *worker.Worker) { worker.Add(w, sayHello); worker.Add(w, sayHello) },
		"WithTimeout(-1ns): must be more than 0\nWith": func(w *worker.Worker) { worker.Add(w, sayHello, worker.WithTimeout(-1), worker.WithRetry(nil)) },
	} {
		w, err := worker.New(worker.Options{Client: workertest.Client()})
		if err != nil {
			t.Fatal(err)
		}
		give(w)
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Run = %v, want %q", err, want)
		}
	}
}

func TestAHandlersTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, test := range []struct{ handler, job, want time.Duration }{
			{time.Minute, 0, time.Minute}, {time.Minute, time.Hour, time.Minute}, {time.Hour, time.Minute, time.Minute},
		} {
			w, err := worker.New(worker.Options{Client: workertest.Client()})
			if err != nil {
				t.Fatal(err)
			}
			causes := make(chan error, 1)
			worker.Handle(w, "a", block(causes), worker.WithTimeout(test.handler))
			var options []workertest.Option
			if test.job > 0 {
				options = append(options, workertest.WithTimeout(test.job))
			}
			start := time.Now()
			got := workertest.RunWorker(t.Context(), w, "a", nil, options...)
			if took := time.Since(start); took != test.want || !errors.Is(<-causes, worker.ErrTimeout) || !got.Failed() || got.Error.Type != "timeout" {
				t.Errorf("%+v: %v after %v", test, got, took)
			}
		}
	})
}

func TestAHandlersRetry(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w, err := worker.New(worker.Options{Client: workertest.Client(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	var fails error
	worker.Handle(w, "a", func(context.Context, *worker.RawJob) (any, error) {
		if fails == nil {
			panic("handler")
		}
		return nil, fails
	}, worker.WithRetry(func(attempt int, err error) time.Duration {
		switch err.Error() {
		case "own":
			return 0
		case "long":
			return 365 * 24 * time.Hour
		case "past":
			return -time.Second
		case "panics":
			panic("retry")
		}
		return time.Duration(attempt) * time.Second
	}))
	busy := errors.New("busy")
	for name, test := range map[string]struct {
		err       error
		want      time.Duration
		permanent bool
		kind      string
	}{
		"by the attempt":     {busy, 2 * time.Second, false, api.KindFail},
		"a panic":            {nil, 2 * time.Second, false, api.KindFail},
		"the job's":          {errors.New("own"), 0, false, api.KindFail},
		"too long":           {errors.New("long"), api.MaxBackoff, false, api.KindFail},
		"in the past":        {errors.New("past"), 0, false, api.KindFail},
		"it panics":          {errors.New("panics"), 0, false, api.KindFail},
		"the error's own":    {worker.RetryAfter(busy, time.Minute), time.Minute, false, api.KindFail},
		"none for permanent": {worker.Permanent(busy), 0, true, api.KindFail},
		"none for a snooze":  {worker.Snooze(time.Hour), 0, false, api.KindSnooze},
	} {
		fails = test.err
		got := workertest.RunWorker(t.Context(), w, "a", nil, workertest.WithAttempt(2))
		if got.Kind != test.kind || got.RetryAfter != test.want || got.Permanent != test.permanent || (got.Request.RetryAfterMS != nil) != (test.want > 0) {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !strings.Contains(log.String(), "the function of WithRetry panicked") || !strings.Contains(log.String(), "panic=retry") {
		t.Errorf("the log is %s", &log)
	}
}

// Jobs beyond the bound wait, and jobs of other types run beside them.
func TestAHandlersConcurrency(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		running, most := make(chan struct{}, 4), 0
		worker.Handle(b.worker, "narrow", func(context.Context, *worker.RawJob) (any, error) {
			running <- struct{}{}
			b.mu.Lock()
			most = max(most, len(running))
			b.mu.Unlock()
			<-time.After(2 * time.Second)
			<-running
			return nil, nil
		}, worker.WithConcurrency(1))
		worker.Handle(b.worker, "wide", func(context.Context, *worker.RawJob) (any, error) { return nil, nil })
		for range 3 {
			b.submit("narrow", `{}`)
		}
		wide := b.submit("wide", `{}`)
		b.run(t)
		if state := b.state(wide); state != api.StateCompleted {
			t.Errorf("beside it a job is %s", state)
		}
		pass(6 * time.Second)
		b.finish(t)
		if len(b.outcomes) != 4 || most != 1 {
			t.Errorf("%d at once, and %d outcomes: %+v", most, len(b.outcomes), b.outcomes)
		}
		for _, sent := range b.outcomes {
			if sent.kind != api.KindComplete {
				t.Errorf("%+v", sent)
			}
		}
	})
}

// A job that found no room goes back for another worker, with its attempt and a
// reason: after 5 s, or half of its own time, so that waiting never is a timeout.
func TestAJobWithoutRoomIsSnoozed(t *testing.T) {
	for name, test := range map[string]struct{ timeout, want time.Duration }{
		"patient": {0, 5 * time.Second}, "short": {4 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t)
				worker.Handle(b.worker, "narrow", block(make(chan error, 1)), worker.WithConcurrency(1))
				b.submit("narrow", `{}`)
				b.run(t)
				b.submit("narrow", `{}`, func(job *api.ClaimedJob) {
					if ms := test.timeout.Milliseconds(); ms > 0 {
						job.TimeoutMS = &ms
					}
				})
				synctest.Wait()
				pass(test.want - time.Millisecond)
				b.mu.Lock()
				early := len(b.outcomes)
				b.mu.Unlock()
				pass(time.Millisecond)
				got := b.only(t)
				if early != 0 || got.kind != api.KindSnooze || got.jobID != "job-2" {
					t.Errorf("%d before its time, then %+v", early, got)
				}
				if ms := *got.body.DelayMS; ms < 2500 || ms > 7500 {
					t.Errorf("snoozed for %d ms", ms)
				}
				if why := got.body.Error; why == nil || why.Message != `this worker runs at most 1 of type "narrow" at once` {
					t.Errorf("the reason is %+v", why)
				}
				b.finish(t)
			})
		})
	}
}

// What ends a job's context ends its wait for room.
func TestAWaitForRoomEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  workertest.Option
		kind string
	}{
		"stop":   {workertest.StopAfter(time.Second), api.KindRelease},
		"cancel": {workertest.CancelAfter(time.Second), api.KindFail},
		"lost":   {workertest.LoseLeaseAfter(time.Second), ""},
		"before": {workertest.StopAfter(0), api.KindRelease},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w, err := worker.New(worker.Options{Client: workertest.Client()})
				if err != nil {
					t.Fatal(err)
				}
				leave, ran := make(chan struct{}), 0
				worker.Handle(w, "narrow", func(context.Context, *worker.RawJob) (any, error) {
					ran++
					<-leave
					return nil, nil
				}, worker.WithConcurrency(1))
				first := make(chan string, 1)
				go func() { first <- workertest.RunWorker(t.Context(), w, "narrow", nil).Kind }()
				synctest.Wait()
				if got := workertest.RunWorker(t.Context(), w, "narrow", nil, test.end); got.Kind != test.kind {
					t.Errorf("the outcome is %v", got)
				}
				close(leave)
				if kind := <-first; kind != api.KindComplete || ran != 1 {
					t.Errorf("the first is %q, %d ran", kind, ran)
				}
				if got := workertest.RunWorker(t.Context(), w, "narrow", nil); !got.Completed() {
					t.Errorf("room is not given back: %v", got)
				}
			})
		})
	}
}

func TestAJobsLogger(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w, err := worker.New(worker.Options{Client: workertest.Client(), WorkerID: "w1", Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	worker.Add(w, func(_ context.Context, job *worker.Job[*hello]) (any, error) {
		job.Logger().Info("hi", "name", job.Payload.Name)
		return nil, nil
	})
	got := workertest.RunWorker(t.Context(), w, "", &hello{"Ada"}, workertest.WithAttempt(2),
		workertest.WithJob(func(job *api.ClaimedJob) { job.CorrelationID = new("c1") }))
	var line map[string]any
	if err := json.Unmarshal(log.Bytes(), &line); err != nil || !got.Completed() {
		t.Fatalf("%v: %v, %s", got, err, &log)
	}
	delete(line, "time")
	want := "map[attempt:2 correlation_id:c1 job_id:00000000-0000-7000-8000-000000000001 level:INFO msg:hi name:Ada queue:default type:hello worker_id:w1]"
	if fmt.Sprint(line) != want {
		t.Errorf("the line is %v, want %s", line, want)
	}
	(&worker.Info{}).Logger().Debug("a job that no worker has made has a logger too")
}
