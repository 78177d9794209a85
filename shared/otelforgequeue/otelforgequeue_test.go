package otelforgequeue_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/otelforgequeue"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker"
	"github.com/forgequeue/forgequeue/shared/worker/workertest"
)

const elsewhere = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

type email struct {
	To string `json:"to"`
}

func (email) JobType() string { return "email" }

type invoice struct{}

func (invoice) JobType() string { return "invoice" }

func recorder() (*tracetest.SpanRecorder, *sdktrace.TracerProvider) {
	spans := tracetest.NewSpanRecorder()
	return spans, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
}

// serve answers submits, and gives the traceparents that came.
func serve(t *testing.T, provider trace.TracerProvider) (c *client.Client, came func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		all = append(all, r.Header.Get("Traceparent"))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/v1/jobs/batch" {
			_ = json.NewEncoder(w).Encode(api.BatchResponse{Results: []api.BatchResult{{Job: &api.BatchJob{ID: "b1"}}, {Job: &api.BatchJob{ID: "b2"}}}})
			return
		}
		var job api.SubmitRequest
		if err := json.NewDecoder(r.Body).Decode(&job); err != nil || job.Queue == "forbidden" {
			problem.New(problem.Forbidden, "no").Write(w)
			return
		}
		_ = json.NewEncoder(w).Encode(api.SubmitResponse{JobSummary: api.JobSummary{ID: "j1"}})
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Options{
		URL: server.URL, APIKey: "fq_test", Middleware: []func(client.SubmitFunc) client.SubmitFunc{otelforgequeue.Submit(provider)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func attributes(span sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range span.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

func traceparentOf(span sdktrace.ReadOnlySpan) string {
	return "00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"
}

// A job's attempts are in the trace of its submit, below it.
func TestWorkIsBelowItsSubmit(t *testing.T) {
	t.Parallel()
	spans, provider := recorder()
	c, came := serve(t, provider)
	ctx, request := provider.Tracer("test").Start(t.Context(), "request")
	if _, err := client.Submit(ctx, c, email{To: "ada"}, client.JobOptions{Queue: "mail"}); err != nil {
		t.Fatal(err)
	}
	request.End()
	w, err := worker.New(worker.Options{Client: workertest.Client()})
	if err != nil {
		t.Fatal(err)
	}
	w.Use(otelforgequeue.Work(provider))
	var inside trace.SpanContext
	var handedOn string
	worker.Add(w, func(ctx context.Context, job *worker.Job[email]) (any, error) {
		inside, handedOn = trace.SpanContextFromContext(ctx), job.Traceparent
		return nil, nil
	})
	workertest.RunWorker(t.Context(), w, "", email{}, workertest.WithAttempt(2), workertest.WithJob(func(job *api.ClaimedJob) {
		job.Traceparent, job.CorrelationID = &came()[0], new("c1")
	}))
	ended := spans.Ended()
	if len(ended) != 3 {
		t.Fatalf("%d spans", len(ended))
	}
	submit, process := ended[0], ended[2]
	if submit.Name() != "submit email" || submit.SpanKind() != trace.SpanKindProducer || submit.Parent().SpanID() != request.SpanContext().SpanID() || came()[0] != traceparentOf(submit) {
		t.Errorf("the submit is %s, its job carries %s", submit.Name(), came()[0])
	}
	if process.Name() != "process email" || process.SpanKind() != trace.SpanKindConsumer || process.Parent().SpanID() != submit.SpanContext().SpanID() || !process.Parent().IsRemote() ||
		process.SpanContext().TraceID() != request.SpanContext().TraceID() {
		t.Errorf("the attempt is %s below %v", process.Name(), process.Parent())
	}
	if inside.SpanID() != process.SpanContext().SpanID() || handedOn != traceparentOf(process) {
		t.Errorf("the handler sees %v and %s", inside.SpanID(), handedOn)
	}
	if got := attributes(submit); got["forgequeue.jobs"] != "1" || got["forgequeue.job.id"] != "j1" || got["forgequeue.job.type"] != "email" || got["forgequeue.job.queue"] != "mail" {
		t.Errorf("the submit has %v", got)
	}
	if got := attributes(process); got["forgequeue.job.attempt"] != "2" || got["forgequeue.correlation_id"] != "c1" || got["forgequeue.tenant.id"] != "test" || got["forgequeue.job.id"] == "" {
		t.Errorf("the attempt has %v", got)
	}
}

func TestSubmitsWithoutASpan(t *testing.T) {
	t.Parallel()
	spans, provider := recorder()
	c, came := serve(t, provider)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := client.Submit(ctx, c, email{}, client.WithTraceparent(elsewhere)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.SubmitMany(ctx, c, []client.JobArgs{email{}, invoice{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Submit(ctx, c, email{}, client.JobOptions{Queue: "forbidden"}); err == nil {
		t.Fatal("it is not refused")
	}
	ended := spans.Ended()
	if first := ended[0]; first.Parent().SpanID().String() != "00f067aa0ba902b7" || came()[0] != traceparentOf(first) || !strings.Contains(came()[0], "4bf92f3577b34da6a3ce929d0e0e4736") {
		t.Errorf("below a named one: %v, and %s is sent", first.Parent(), came()[0])
	}
	if many := ended[1]; many.Name() != "submit jobs" || many.Parent().IsValid() || attributes(many)["forgequeue.jobs"] != "2" || attributes(many)["forgequeue.job.id"] != "" {
		t.Errorf("many: %s %v", many.Name(), attributes(many))
	}
	if refused := ended[2]; refused.Status().Code != codes.Error || !strings.Contains(refused.Status().Description, "forbidden") {
		t.Errorf("a refusal is %v", refused.Status())
	}
	if ended[0].Status().Code != codes.Unset {
		t.Errorf("a submit is %v", ended[0].Status())
	}
}

// Without a provider no spans are made; what the caller names is passed on.
func TestTheGlobalProvider(t *testing.T) {
	t.Parallel()
	c, came := serve(t, nil)
	if _, err := client.Submit(t.Context(), c, email{}, client.WithTraceparent(elsewhere)); err != nil || came()[0] != elsewhere {
		t.Errorf("%q is sent (%v)", came(), err)
	}
	got := workertest.Run(t.Context(), func(_ context.Context, job *worker.Job[email]) (string, error) { return job.Traceparent, nil }, email{},
		workertest.WithMiddleware(otelforgequeue.Work(nil)), workertest.WithJob(func(job *api.ClaimedJob) { job.Traceparent = new(elsewhere) }))
	if got.Result != elsewhere {
		t.Errorf("the handler sees %v", got)
	}
}

func TestTheStatusOfAnAttempt(t *testing.T) {
	t.Parallel()
	busy := errors.New("busy")
	for name, test := range map[string]struct {
		err  error
		want codes.Code
		text string
	}{
		"a result":  {nil, codes.Unset, ""},
		"a failure": {busy, codes.Error, "busy"},
		"a snooze":  {worker.Snooze(time.Minute), codes.Unset, ""},
		"a wait":    {worker.Wait(time.Minute, "approved"), codes.Unset, ""},
		"a panic":   {errPanic, codes.Error, "the handler did not return"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spans, provider := recorder()
			got := workertest.Run(t.Context(), func(context.Context, *worker.Job[email]) (any, error) {
				if errors.Is(test.err, errPanic) {
					panic("as the test wants it")
				}
				return nil, test.err
			}, email{}, workertest.WithMiddleware(otelforgequeue.Work(provider)))
			ended := spans.Ended()
			if len(ended) != 1 || ended[0].Status().Code != test.want || ended[0].Status().Description != test.text || ended[0].Parent().IsValid() {
				t.Errorf("%v: %d spans, %+v", got, len(ended), ended)
			}
		})
	}
}

var errPanic = errors.New("panic")
