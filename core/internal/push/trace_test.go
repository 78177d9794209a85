package push_test

import (
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Each call is a span of the job's trace, which the destination gets. It contains
// nothing of what a tenant may have put into the URL.
func TestCallsAreSpans(t *testing.T) {
	t.Parallel()
	f := newIdleFixture(t)
	recorder := tracetest.NewSpanRecorder()
	f.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	f.start(5 * time.Second)
	good, bad := newDestination(t, says(200, "1")), newDestination(t, says(410, "no"))
	f.put(f.tenant, "good", good.URL+"/jobs?token=hunter2")
	f.put(f.tenant, "bad", bad.URL+"/jobs?token=hunter2")
	f.ends(f.tenant, f.submit(f.tenant, "good", 1)[0], api.StateCompleted)
	f.ends(f.tenant, f.submit(f.tenant, "bad", 1)[0], api.StateDeadLetter)
	var received []string
	for _, d := range []*destination{good, bad} {
		received = append(received, d.got()[0].header.Get("Traceparent"))
	}
	spans := recorder.Ended()
	if len(spans) != len(received) {
		t.Fatalf("%d spans for %d calls", len(spans), len(received))
	}
	for i, span := range spans {
		own := "00-4bf92f3577b34da6a3ce929d0e0e4736-" + span.SpanContext().SpanID().String() + "-01"
		if received[i] != own || span.Parent().SpanID().String() != "00f067aa0ba902b7" || span.SpanKind() != trace.SpanKindClient {
			t.Errorf("the destination got %q, the span is %q below %v", received[i], own, span.Parent().SpanID())
		}
		if failed := span.Status().Code == codes.Error; failed != (i == 1) {
			t.Errorf("call %d: %v", i, span.Status())
		}
		for _, one := range span.Attributes() {
			if strings.Contains(one.Value.String(), "hunter2") {
				t.Errorf("%s contains %q", one.Key, one.Value.String())
			}
		}
	}
}
