package httpapi_test

import (
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const (
	clientParent  = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	clientTraceID = "4bf92f3577b34da6a3ce929d0e0e4736"
)

func recording() (*tracetest.SpanRecorder, trace.TracerProvider) {
	recorder := tracetest.NewSpanRecorder()
	return recorder, sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
}

func tracedBy(provider trace.TracerProvider) func(*httpapi.Options) {
	return func(o *httpapi.Options) { o.Tracing = provider }
}

func attributes(span sdktrace.ReadOnlySpan) map[string]string {
	values := map[string]string{}
	for _, one := range span.Attributes() {
		values[string(one.Key)] = one.Value.String()
	}
	return values
}

// The token of an event stream is in no span.
func TestSpansWithoutTokens(t *testing.T) {
	t.Parallel()
	recorder, provider := recording()
	d := newDoor(t, tracedBy(provider))
	d.watched(api.StateCompleted)
	token, _ := d.auth.EventsToken(keyID(t, d.key("read")), jobID)
	d.events(eventsPath+"?token="+token, "").want("end", api.StateCompleted)
	eventually(t, "the span to end", func() bool { return len(recorder.Ended()) > 0 })
	for name, value := range attributes(recorder.Ended()[0]) {
		if strings.Contains(value, token) {
			t.Errorf("%s: %s", name, value)
		}
	}
}

func keyID(t *testing.T, text string) string {
	t.Helper()
	key, err := auth.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return key.ID
}

// A request is a span of the client's trace, or begins one, and core is told of the
// span as the job's.
func TestRequestsAreSpans(t *testing.T) {
	t.Parallel()
	recorder, provider := recording()
	d := newDoor(t, tracedBy(provider))
	d.accept()
	key := d.key("submit")
	item := func(headers ...string) hop.Item[hop.SubmitJobsRequest] {
		d.do("POST", "/v1/jobs?", key, `{"type":"a"}`, headers...)
		all := d.core.Requests(hop.SubmitJobs.Path)
		return hop.Item[hop.SubmitJobsRequest]{Traceparent: all[len(all)-1].Items[0].Traceparent}
	}
	for _, test := range []struct {
		name, traceparent string
		continued         bool
	}{
		{"the client's", clientParent, true},
		{"none", "", false},
		{"not well-formed", strings.ToUpper(clientParent), false},
		{"longer than can be passed on", "01" + clientParent[2:] + "-more", false},
	} {
		got := item("Traceparent", test.traceparent, "X-Correlation-Id", "order 17", "X-Forwarded-For", "203.0.113.9").Traceparent
		spans := recorder.Ended()
		span := spans[len(spans)-1]
		if want := "00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"; got != want {
			t.Errorf("%s: core got %q, the span is %q", test.name, got, want)
		}
		if span.Parent().IsValid() != test.continued || (span.SpanContext().TraceID().String() == clientTraceID) != test.continued {
			t.Errorf("%s: the span's parent is %v", test.name, span.Parent())
		}
		values := attributes(span)
		if span.Name() != "POST /v1/jobs" || span.SpanKind() != trace.SpanKindServer || values["http.route"] != "/v1/jobs" ||
			values["forgequeue.correlation_id"] != "order 17" || values["client.address"] != "127.0.0.1" || values["forgequeue.tenant.id"] != tenantID {
			t.Errorf("%s: %s %v", test.name, span.Name(), values)
		}
	}
	// A client that has decided not to sample is obeyed, and its trace goes on.
	before := len(recorder.Ended())
	if got := item("Traceparent", clientParent[:53]+"00").Traceparent; len(recorder.Ended()) != before || !strings.HasPrefix(got, "00-"+clientTraceID) || !strings.HasSuffix(got, "-00") {
		t.Errorf("not sampled: core got %q, %d spans", got, len(recorder.Ended())-before)
	}
	before = len(recorder.Ended())
	d.do("GET", "/livez", "", "")
	d.do("GET", "/readyz", "", "")
	if n := len(recorder.Ended()) - before; n != 0 {
		t.Errorf("probes made %d spans", n)
	}
	for _, line := range d.log.requests(t) {
		if line["route"] == "/v1/jobs" && len(line["trace_id"].(string)) != 32 {
			t.Errorf("a line has the trace %v", line["trace_id"])
		}
	}
}

// The limiter's calls are spans of the request that they are for, and of no other:
// what Redis is asked in the background, or for a request that is not sampled, has none.
func TestRedisCallsAreSpansOfRequests(t *testing.T) {
	t.Parallel()
	recorder, provider := recording()
	redis, err := admission.ConnectWithin(storetest.Redis(t), hang)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Close() })
	if err := redis.Trace(provider); err != nil {
		t.Fatal(err)
	}
	d := newDoor(t, tracedBy(provider), func(o *httpapi.Options) {
		o.Redis, o.Limiter = redis, admission.NewLimiter(redis, admission.LimiterOptions{Prefix: "test:" + t.Name() + ":"})
	})
	d.accept()
	key := d.limited(api.Limits{RequestsPerSecond: new(100.0), RequestBurst: new(int64(100))})
	calls := func(headers ...string) []sdktrace.ReadOnlySpan {
		before := len(recorder.Ended())
		if got := d.do("POST", "/v1/jobs", key, `{"type":"a"}`, headers...); got.status != 202 {
			t.Fatalf("%d %s", got.status, got.body)
		}
		return slices.DeleteFunc(recorder.Ended()[before:], func(s sdktrace.ReadOnlySpan) bool { return !strings.HasPrefix(s.Name(), "redis") })
	}
	made := calls("Traceparent", clientParent)
	if len(made) == 0 || made[0].SpanContext().TraceID().String() != clientTraceID {
		t.Errorf("the limiter made the spans %v", made)
	}
	for _, span := range made {
		if statement := attributes(span)["db.statement"]; statement != "" {
			t.Errorf("a span tells %q", statement)
		}
	}
	if made := calls("Traceparent", clientParent[:53]+"00"); len(made) != 0 {
		t.Errorf("a request that is not sampled made the spans %v", made)
	}
	if redis.Check(t.Context()) != admission.CheckOK {
		t.Error("Redis does not answer")
	}
	if spans := recorder.Ended(); slices.ContainsFunc(spans, func(s sdktrace.ReadOnlySpan) bool { return s.Name() == "ping" }) {
		t.Error("a ping made a span")
	}
}
