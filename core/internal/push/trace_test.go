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

// Each call is a span of the job's trace, which the destination is told of. It tells
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
	var told []string
	for _, d := range []*destination{good, bad} {
		told = append(told, d.got()[0].header.Get("Traceparent"))
	}
	spans := recorder.Ended()
	if len(spans) != len(told) {
		t.Fatalf("%d spans for %d calls", len(spans), len(told))
	}
	for i, span := range spans {
		own := "00-4bf92f3577b34da6a3ce929d0e0e4736-" + span.SpanContext().SpanID().String() + "-01"
		if told[i] != own || span.Parent().SpanID().String() != "00f067aa0ba902b7" || span.SpanKind() != trace.SpanKindClient {
			t.Errorf("the destination got %q, the span is %q below %v", told[i], own, span.Parent().SpanID())
		}
		if failed := span.Status().Code == codes.Error; failed != (i == 1) {
			t.Errorf("call %d: %v", i, span.Status())
		}
		for _, one := range span.Attributes() {
			if strings.Contains(one.Value.String(), "hunter2") {
				t.Errorf("%s tells %q", one.Key, one.Value.String())
			}
		}
	}
}
