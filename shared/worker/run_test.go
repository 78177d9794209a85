package worker_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker"
)

func TestNewAndRunSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := worker.New(worker.Options{Queues: []string{"no spaces"}, Wait: time.Minute, Concurrency: -1})
	for _, part := range []string{"Client is nil", "Wait is 1m0s", "queues[0]", "concurrency"} {
		if err == nil || !strings.Contains(problemText(err), part) {
			t.Errorf("%v does not speak of %s", err, part)
		}
	}
	b := newBedOutside(t)
	if err := b.Run(t.Context()); err == nil {
		t.Error("ran without a handler")
	}
	worker.Handle(b, "greet", block(nil))
	worker.Handle(b, "greet", block(nil))
	worker.Handle(b, "no spaces", block(nil))
	worker.Handle[int, int](b, "nil", nil)
	err = b.Run(t.Context())
	for _, part := range []string{`"greet" has two`, `"no spaces" cannot`, `"nil" is nil`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not speak of %s", err, part)
		}
	}
}

// problemText is err with the fields of the problem inside.
func problemText(err error) string {
	text := err.Error()
	if p, ok := problem.From(err); ok {
		for _, field := range p.Errors {
			text += " " + field.Field
		}
	}
	return text
}

func newBedOutside(t *testing.T) *worker.Worker {
	t.Helper()
	c, err := client.New(client.Options{URL: "http://127.0.0.1:1", APIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Options{Client: c})
	if err != nil {
		t.Fatal(err)
	}
	if !api.ValidLabel(w.ID()) {
		t.Errorf("the worker called itself %q", w.ID())
	}
	return w
}

func TestJobCarriesEverything(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t, func(o *worker.Options) { o.Tags = []string{"gpu"} })
		user, correlation, parent, deadline := "bob", "c-1", "00-aa-bb-01", api.At(time.Now().Add(time.Hour))
		got := make(chan *worker.Job[greeting], 1)
		worker.Handle(b.worker, "greet", func(ctx context.Context, job *worker.Job[greeting]) (any, error) {
			if ctx.Value(ctxKey{}) != "kept" {
				t.Error("the values of Run's context are gone")
			}
			got <- job
			return nil, nil
		})
		b.submit("greet", `{"name":"Ada"}`, func(j *api.ClaimedJob) {
			j.User, j.CorrelationID, j.Traceparent, j.Deadline = &user, &correlation, &parent, &deadline
			j.Tags, j.Metadata = []string{"gpu"}, map[string]string{"k": "v"}
		})
		ctx, stop := context.WithCancel(context.WithValue(t.Context(), ctxKey{}, "kept"))
		b.stop = stop
		go func() { b.ended <- b.worker.Run(ctx) }()
		job := <-got
		if job.ID != "job-1" || job.Tenant != "t1" || job.Queue != "default" || job.Type != "greet" || job.User != "bob" ||
			job.Attempt != 1 || job.MaxAttempts != 3 || job.Epoch != 1 || job.CorrelationID != "c-1" || job.Traceparent != parent ||
			!job.Deadline.Equal(deadline.Time) || job.Tags[0] != "gpu" || job.Metadata["k"] != "v" || job.Payload.Name != "Ada" {
			t.Errorf("the job is %+v", job)
		}
		synctest.Wait()
		if claim := b.claims[0]; *claim.Max != 4 || *claim.WaitMS != 20_000 || (*claim.Tags)[0] != "gpu" {
			t.Errorf("the claim is %s", asJSON(t, claim))
		}
		b.finish(t)
	})
}

type ctxKey struct{}

func TestNeverMoreThanItsConcurrency(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		worker.Handle(b.worker, "short", func(context.Context, *worker.RawJob) (any, error) {
			<-time.After(time.Second)
			return nil, nil
		})
		for range 41 {
			b.submit("short", `{}`)
		}
		b.run(t)
		pass(15 * time.Second)
		b.finish(t)
		if len(b.outcomes) != 41 || b.mostRunning != 4 {
			t.Errorf("%d outcomes, %d at once", len(b.outcomes), b.mostRunning)
		}
	})
}

func TestStopWaitsForHandlers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		worker.Handle(b.worker, "short", func(ctx context.Context, _ *worker.RawJob) (any, error) {
			<-time.After(15 * time.Second)
			return nil, ctx.Err()
		})
		id := b.submit("short", `{}`)
		b.run(t)
		if took := b.finish(t); took != 15*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if got := b.state(id); got != api.StateCompleted {
			t.Errorf("the job is %s", got)
		}
	})
}

func TestStopReleasesWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler func(release <-chan struct{}) func(ctx context.Context, _ *worker.RawJob) (any, error)
		took    time.Duration
	}{
		"a handler that listens": {func(<-chan struct{}) func(ctx context.Context, _ *worker.RawJob) (any, error) {
			return block(make(chan error, 1))
		}, 20 * time.Second},
		"a handler that does not": {func(release <-chan struct{}) func(ctx context.Context, _ *worker.RawJob) (any, error) {
			return func(context.Context, *worker.RawJob) (any, error) { <-release; return nil, nil }
		}, 22 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t)
				release := make(chan struct{})
				worker.Handle(b.worker, "long", test.handler(release))
				id := b.submit("long", `{}`)
				b.run(t)
				if took := b.finish(t); took != test.took {
					t.Errorf("the stop took %v, want %v", took, test.took)
				}
				if got := b.only(t); got.kind != api.KindRelease {
					t.Errorf("sent %s", got.kind)
				}
				if j := b.find(id); j.state != api.StateQueued || j.Attempt != 0 {
					t.Errorf("the job is %s with %d attempts spent", j.state, j.Attempt)
				}
				checkLine(t, b, id, "released")
				close(release)
			})
		})
	}
}

func TestStopEndsWithoutAServer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t, func(o *worker.Options) { o.Grace = -1 })
		worker.Handle(b.worker, "long", block(make(chan error, 1)))
		id := b.submit("long", `{}`)
		b.run(t)
		b.spoilWith(func(_ string, _ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		})
		if took := b.finish(t); took > 10*time.Second { // 2 s for handlers, 5 s for outcomes, 2 s for the goodbye
			t.Errorf("the stop took %v", took)
		}
		checkLine(t, b, id, "unsent")
	})
}

func TestStopOfAnIdleWorkerIsQuick(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		worker.Handle(b.worker, "long", block(nil))
		b.run(t)
		pass(5 * time.Second)
		if took := b.finish(t); took > 0 {
			t.Errorf("the stop took %v", took)
		}
	})
}

// lateStop ends the worker's context between a claim's answer and its reading.
type lateStop struct {
	http.RoundTripper
	stop func()
}

func (l *lateStop) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path != "/v1/claims" {
		return l.RoundTripper.RoundTrip(r)
	}
	response, err := l.RoundTripper.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	l.stop()
	return response, err
}

func TestJobsThatComeTooLateAreReleased(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		late := &lateStop{}
		b := newBed(t)
		late.RoundTripper, late.stop = b.transport, func() { b.stop() }
		w, err := worker.New(worker.Options{Client: b.connect(late), WorkerID: "w2"})
		if err != nil {
			t.Fatal(err)
		}
		b.worker = w
		worker.Handle(b.worker, "long", func(context.Context, *worker.RawJob) (any, error) {
			t.Error("a handler started after the stop")
			return nil, nil
		})
		ids := []string{b.submit("long", `1`), b.submit("long", `2`)}
		b.run(t)
		if err := <-b.ended; err != nil {
			t.Errorf("Run = %v", err)
		}
		for _, id := range ids {
			if j := b.find(id); j.state != api.StateQueued || j.Attempt != 0 || j.Epoch != 1 {
				t.Errorf("%s is %s with %d attempts spent", id, j.state, j.Attempt)
			}
		}
	})
}

// The goodbye is the last that a worker says, after its jobs have ended.
func TestAWorkerSaysGoodbye(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		var last []string
		b.spoilWith(func(route string, _ http.ResponseWriter, _ *http.Request) bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			last = append(last, route)
			return false
		})
		worker.Handle(b.worker, "greet", func(context.Context, *worker.RawJob) (any, error) {
			<-time.After(5 * time.Second)
			return nil, nil
		})
		id := b.submit("greet", `{}`)
		b.run(t)
		b.finish(t)
		if state := b.state(id); state != api.StateCompleted {
			t.Errorf("the job is %s", state)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.known) > 0 || len(b.left) != 1 || b.left[0] != "w1" || last[len(last)-1] != "DELETE /v1/workers/{id}" {
			t.Errorf("known %v, left %v, asked %v", b.known, b.left, last)
		}
	})
}

// What the worker could not give back before it ended goes back by its goodbye.
func TestAGoodbyeGivesBackWhatIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t, func(o *worker.Options) { o.Grace = -1 })
		b.spoilWith(func(route string, w http.ResponseWriter, _ *http.Request) bool {
			if outcome := strings.Contains(route, "{kind}") || strings.Contains(route, "outcomes"); !outcome {
				return false
			}
			problem.New(problem.CoreUnavailable, "").Write(w)
			return true
		})
		worker.Handle(b.worker, "long", block(make(chan error, 1)))
		id := b.submit("long", `{}`)
		b.run(t)
		if took := b.finish(t); took > 10*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if j := b.find(id); j.state != api.StateQueued || j.Attempt != 0 {
			t.Errorf("the job is %s at attempt %d; the log: %s", j.state, j.Attempt, b.log.String())
		}
	})
}

// A stop does not wait for a server that is away.
func TestAGoodbyeHasItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBed(t)
		b.spoilWith(func(route string, w http.ResponseWriter, _ *http.Request) bool {
			if !strings.HasPrefix(route, "DELETE") {
				return false
			}
			problem.New(problem.CoreUnavailable, "").Write(w)
			return true
		})
		worker.Handle(b.worker, "long", block(nil))
		b.run(t)
		if took := b.finish(t); took > 3*time.Second || !strings.Contains(b.log.String(), "deregistering failed") {
			t.Errorf("the stop took %v; the log: %s", took, b.log.String())
		}
	})
}

func TestARefusedKeyEndsRun(t *testing.T) {
	t.Parallel()
	for _, route := range []string{"POST /v1/workers", "POST /v1/claims"} {
		t.Run(route, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t)
				b.spoilWith(func(asked string, w http.ResponseWriter, _ *http.Request) bool {
					if asked != route {
						return false
					}
					problem.New(problem.Forbidden, "the key lacks the scope work").Write(w)
					return true
				})
				worker.Handle(b.worker, "long", block(nil))
				var p *problem.Problem
				if err := b.worker.Run(t.Context()); !errors.As(err, &p) || p.Code != problem.Forbidden {
					t.Errorf("Run = %v", err)
				}
				if err := b.worker.Run(t.Context()); err == nil {
					t.Error("a second Run")
				}
			})
		})
	}
}

func TestAServerThatIsAwayIsNotHammered(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(w http.ResponseWriter){
		"refuses": func(w http.ResponseWriter) { problem.New(problem.CoreUnavailable, "").Write(w) },
		// No error, but no waiting either: as bad as one when it is answered in a loop.
		"says nothing at once": func(w http.ResponseWriter) { reply(w, api.ClaimResponse{}) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBed(t)
				asked, away := 0, true
				b.spoilWith(func(route string, w http.ResponseWriter, _ *http.Request) bool {
					b.mu.Lock()
					defer b.mu.Unlock()
					if route != "POST /v1/claims" || !away {
						return false
					}
					asked++
					spoil(w)
					return true
				})
				done := make(chan struct{})
				worker.Handle(b.worker, "greet", func(context.Context, *worker.RawJob) (any, error) { close(done); return nil, nil })
				b.submit("greet", `{}`)
				b.run(t)
				pass(5 * time.Minute)
				b.mu.Lock()
				if asked < 30 || asked > 75 {
					t.Errorf("asked %d times in five minutes", asked)
				}
				away = false
				b.mu.Unlock()
				<-done
				b.finish(t)
			})
		})
	}
}
