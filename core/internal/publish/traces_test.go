package publish_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

const (
	parentA   = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-aaaaaaaaaaaaaaaa-01"
	parentB   = "00-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb-bbbbbbbbbbbbbbbb-01"
	unsampled = "00-cccccccccccccccccccccccccccccccc-cccccccccccccccc-00"
)

// tracedFixture is a fixture whose core makes spans.
func tracedFixture(t *testing.T) (*fixture, *tracetest.SpanRecorder) {
	t.Helper()
	f := newFixture(t)
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: 5 * time.Second, Tracing: provider}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	f.Store = store
	f.D = f.NewCoreWith(engine.Options{Store: store, Tracer: provider.Tracer("test")})
	return f, recorder
}

func (f *fixture) tracedCall(traceparent string) submits.Call {
	call := f.Call(api.SubmitRequest{Type: "a"})
	call.Traceparent, call.Span = traceparent, telemetry.ParseTraceparent(f.Context(), traceparent)
	return call
}

func named(spans []sdktrace.ReadOnlySpan, name string) []sdktrace.ReadOnlySpan {
	return slices.DeleteFunc(spans, func(s sdktrace.ReadOnlySpan) bool { return s.Name() != name })
}

// A flush is of the first trace that is sampled, and linked to the others; its
// statements are below it, and a flush without a sampled request is in no trace.
func TestAFlushIsInTheTracesOfThoseWhoAsked(t *testing.T) {
	t.Parallel()
	f, recorder := tracedFixture(t)
	if err := f.D.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Accepted(f.D.Submit(t.Context(), []submits.Call{
		f.tracedCall(""), f.tracedCall(unsampled), f.tracedCall(parentA), f.tracedCall(parentB), f.tracedCall(parentB),
	})...)
	flushes := named(recorder.Ended(), "flush submits")
	if len(flushes) != 1 {
		t.Fatalf("%d spans of flushes", len(flushes))
	}
	flush := flushes[0]
	if got := flush.Parent().SpanID().String(); got != "aaaaaaaaaaaaaaaa" {
		t.Errorf("the flush is a child of %s", got)
	}
	if links := flush.Links(); len(links) != 1 || links[0].SpanContext.SpanID().String() != "bbbbbbbbbbbbbbbb" {
		t.Errorf("the flush is linked to %v", links)
	}
	inserts := named(recorder.Ended(), "INSERT jobs")
	if !slices.ContainsFunc(inserts, func(s sdktrace.ReadOnlySpan) bool { return s.Parent().SpanID() == flush.SpanContext().SpanID() }) {
		t.Errorf("no INSERT below the flush")
	}
	for _, span := range recorder.Ended() {
		if span.SpanContext().TraceID() != flush.SpanContext().TraceID() {
			t.Errorf("%s is in the trace %s", span.Name(), span.SpanContext().TraceID())
		}
	}
}

// Whoever starts the group commit lends it his context, and nothing of his trace.
func TestAFlushForNobodyIsInNoTrace(t *testing.T) {
	t.Parallel()
	f, recorder := tracedFixture(t)
	ctx := telemetry.Under(t.Context(), parentA)
	f.Accepted(f.D.Submit(ctx, []submits.Call{f.tracedCall("")})...)
	if flushes := named(recorder.Ended(), "flush submits"); len(flushes) != 0 {
		t.Errorf("%d spans of flushes", len(flushes))
	}
	if inserts := named(recorder.Ended(), "INSERT jobs"); len(inserts) != 0 {
		t.Errorf("%d spans of inserts", len(inserts))
	}
}

// An attempt is a span of its job's trace, for each way to end it.
func TestAttemptsAreSpansOfTheirJobs(t *testing.T) {
	t.Parallel()
	f, recorder := tracedFixture(t)
	ends := []string{api.KindComplete, api.KindFail, "lease_expired"}
	calls := make([]submits.Call, len(ends)+1)
	for i := range calls {
		calls[i] = f.tracedCall(parentA)
	}
	calls[len(ends)] = f.tracedCall(unsampled)
	f.Accepted(f.D.Submit(t.Context(), calls)...)
	found, err := f.D.Claim(t.Context(), claims.Call{Owner: f.Tenant, WorkerID: "w", Queues: []string{api.DefaultQueue}, Max: 10})
	if err != nil || len(found) != len(calls) {
		t.Fatalf("claimed %d, %v", len(found), err)
	}
	outcome := map[uuid.UUID]string{calls[len(ends)].IDs[0]: api.KindComplete}
	for i, end := range ends {
		outcome[calls[i].IDs[0]] = end
	}
	var endings []jobs.Ending
	for i := range found {
		if kind := outcome[found[i].ID]; kind != "lease_expired" {
			endings = append(endings, jobs.Ending{Lease: found[i].Lease(), Kind: kind, Error: &api.JobError{Type: "broken"}})
		}
	}
	for _, ended := range f.D.End(telemetry.Under(t.Context(), parentB), endings) {
		if ended.Err != nil {
			t.Fatal(ended.Err)
		}
	}
	f.Exec(`UPDATE jobs SET lease_expires_at = now() - interval '1 hour' WHERE state = 'running'`)
	reaped, err := f.Store.Jobs.Reap(t.Context(), time.Now().Add(-time.Hour), 10, func() float64 { return 0 })
	if err != nil || len(reaped) != 1 {
		t.Fatalf("reaped %d, %v", len(reaped), err)
	}
	f.D.Publish(t.Context(), publish.Changes{Jobs: reaped})
	attempts := named(recorder.Ended(), "attempt")
	var outcomes []string
	for _, span := range attempts {
		values := map[string]string{}
		for _, one := range span.Attributes() {
			values[string(one.Key)] = one.Value.String()
		}
		outcomes = append(outcomes, values["forgequeue.outcome"]+" "+span.Status().Description)
		if span.Parent().SpanID().String() != "aaaaaaaaaaaaaaaa" || span.SpanKind() != trace.SpanKindConsumer || !span.EndTime().After(span.StartTime()) ||
			values["forgequeue.job.type"] != "a" || values["forgequeue.job.queue"] != api.DefaultQueue || values["forgequeue.job.attempt"] != "1" {
			t.Errorf("an attempt: %v, %v", span.Parent(), values)
		}
	}
	slices.Sort(outcomes)
	if got := strings.Join(outcomes, ", "); got != "complete , fail broken, lease_expired lease_expired" {
		t.Errorf("attempts: %s", got)
	}
	if flushes := named(recorder.Ended(), "flush outcomes"); len(flushes) != 1 || flushes[0].Parent().SpanID().String() != "bbbbbbbbbbbbbbbb" {
		t.Errorf("the outcomes' flush: %v", flushes)
	}
}
