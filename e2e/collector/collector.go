// Package collector is an OpenTelemetry collector for tests: it takes spans over
// OTLP, HTTP with protobuf, and keeps them.
package collector

import (
	"bytes"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one span as it was exported; ids are in lower-case hex, Parent is empty for
// a root.
type Span struct {
	Service, Scope, Name      string
	TraceID, SpanID, ParentID string
	Kind                      tracepb.Span_SpanKind
	Failed                    bool
	Attributes                map[string]string
	Links                     []string
}

// Collector keeps what it is sent.
type Collector struct {
	// URL is where it listens, for OTEL_EXPORTER_OTLP_ENDPOINT.
	URL string

	mu       sync.Mutex
	requests int
	headers  []http.Header
	spans    []Span
	bodies   bytes.Buffer
}

// New starts a collector, stopped with the test.
func New(tb testing.TB) *Collector {
	tb.Helper()
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.take(r); err != nil {
			tb.Errorf("collector: %v", err)
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	tb.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

func (c *Collector) take(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var sent collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &sent); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	_, _ = c.bodies.Write(body) // it never fails
	c.headers = append(c.headers, r.Header.Clone())
	for _, resource := range sent.GetResourceSpans() {
		service := values(resource.GetResource().GetAttributes())["service.name"]
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, read(service, scope.GetScope().GetName(), span))
			}
		}
	}
	return nil
}

func read(service, scope string, span *tracepb.Span) Span {
	made := Span{
		Service: service, Scope: scope, Name: span.GetName(), Kind: span.GetKind(),
		TraceID: hex.EncodeToString(span.GetTraceId()), SpanID: hex.EncodeToString(span.GetSpanId()),
		ParentID: hex.EncodeToString(span.GetParentSpanId()), Attributes: values(span.GetAttributes()),
		Failed: span.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR,
	}
	for _, link := range span.GetLinks() {
		made.Links = append(made.Links, hex.EncodeToString(link.GetSpanId()))
	}
	return made
}

func values(attributes []*commonpb.KeyValue) map[string]string {
	all := map[string]string{}
	for _, one := range attributes {
		if text, ok := one.GetValue().GetValue().(*commonpb.AnyValue_StringValue); ok {
			all[one.GetKey()] = text.StringValue
		} else {
			all[one.GetKey()] = one.GetValue().String()
		}
	}
	return all
}

// Requests is how often anything was sent.
func (c *Collector) Requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Has says whether a text is in anything that was sent: names, attributes, events and links of spans.
func (c *Collector) Has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.bodies.Bytes(), []byte(text))
}

// Headers are those of the requests.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

// Trace gives the spans of one trace that have come so far.
func (c *Collector) Trace(id string) []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s Span) bool { return s.TraceID != id })
}
