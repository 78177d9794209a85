package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/shared/server/otlp"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestExportSettings(t *testing.T) {
	t.Parallel()
	const base, traces = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	tests := []struct {
		name   string
		export telemetry.Export
		on     bool
		wrong  string // the variable that is named; empty for none
	}{
		{"nothing", telemetry.Export{}, false, ""},
		{"a base", telemetry.Export{Exporter: otlp.Start, Endpoint: "http://127.0.0.1:4318"}, true, ""},
		{"a whole URL", telemetry.Export{Exporter: otlp.Start, TracesEndpoint: "https://collector.example/v1/traces"}, true, ""},
		{"disabled", telemetry.Export{Exporter: otlp.Start, Endpoint: "nonsense", Disabled: "TRUE"}, false, ""},
		{"not disabled", telemetry.Export{Exporter: otlp.Start, Endpoint: "http://c:4318", Disabled: "1"}, true, ""},
		{"no scheme", telemetry.Export{Exporter: otlp.Start, Endpoint: "127.0.0.1:4318"}, true, base},
		{"another scheme", telemetry.Export{Exporter: otlp.Start, TracesEndpoint: "grpc://c:4317"}, true, traces},
		{"no host", telemetry.Export{Exporter: otlp.Start, Endpoint: "http://"}, true, base},
		{"a password", telemetry.Export{Exporter: otlp.Start, Endpoint: "http://me:hunter2@c:4318"}, true, base},
		{"a token", telemetry.Export{Exporter: otlp.Start, Endpoint: "http://c:4318?token=hunter2"}, true, base},
		{"unreadable", telemetry.Export{Exporter: otlp.Start, TracesEndpoint: "http://hunter2\x7f"}, true, traces},
	}
	for _, test := range tests {
		err := test.export.Check()
		if test.export.On() != test.on || (err != nil) != (test.wrong != "") {
			t.Errorf("%s: on %v, %v", test.name, test.export.On(), err)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), test.wrong+":") || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestNoExportIsNoTracing(t *testing.T) {
	t.Parallel()
	tracing, err := telemetry.Export{}.Start(t.Context(), "s", "v", slog.New(slog.DiscardHandler))
	if tracing != nil || err != nil || tracing.Provider() != nil || tracing.Tracer() != nil {
		t.Errorf("%v, %v", tracing, err)
	}
	tracing.Stop(t.Context())
}

func TestTraceparent(t *testing.T) {
	t.Parallel()
	own := trace.ContextWithSpanContext(t.Context(), telemetry.ParseTraceparent(t.Context(), strings.Replace(parent, "4bf", "111", 1)))
	for _, test := range []struct {
		text string
		good bool
	}{
		{parent, true},
		{"01" + parent[2:], true},
		{"", false},
		{"ff" + parent[2:], false},
		{strings.ToUpper(parent), false},
		{parent + "-more", false},
		{"01" + parent[2:] + "-more", false},
		{parent[:54], false},
		{"00-" + strings.Repeat("0", 32) + parent[35:], false},
		{parent[:36] + strings.Repeat("0", 16) + "-01", false},
	} {
		if got := telemetry.ParseTraceparent(own, test.text).IsValid(); got != test.good {
			t.Errorf("%q: valid %v", test.text, got)
		}
		under := telemetry.Traceparent(telemetry.Under(own, test.text))
		if want := "00" + parent[2:]; test.good && under != want || !test.good && under != "" {
			t.Errorf("%q: under it is %q", test.text, under)
		}
	}
	if id := telemetry.TraceID(parent); id != "4bf92f3577b34da6a3ce929d0e0e4736" || telemetry.TraceID("short") != "" {
		t.Errorf("trace id %q", id)
	}
}

// heard is a log that several goroutines write to.
type heard struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *heard) count(word string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Count(h.text.String(), word)
}

// A collector that refuses is complained of once, and one that hangs holds up the
// stop for as long as is promised, and leaves nothing behind.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	for name, handler := range map[string]http.HandlerFunc{
		"refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"hangs":   func(http.ResponseWriter, *http.Request) { <-release },
	} {
		server := httptest.NewServer(handler)
		log := &heard{}
		tracing, err := telemetry.Export{Exporter: otlp.Start, Endpoint: server.URL}.Start(t.Context(), "s", "v", slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		for range 2000 { // more than one batch
			_, span := tracing.Tracer().Start(context.WithoutCancel(t.Context()), "one")
			span.End()
		}
		begun := time.Now()
		tracing.Stop(t.Context())
		if took := time.Since(begun); took > 6*time.Second {
			t.Errorf("%s: the stop took %v", name, took)
		}
		if n := log.count("exported"); n < 1 || n > 2 {
			t.Errorf("%s: %d lines", name, n)
		}
		if name == "hangs" {
			close(release)
		}
		server.Close()
	}
}

// A program that was built without the exporter does not start where its settings ask for spans, and says which has it.
func TestNoExporter(t *testing.T) {
	t.Parallel()
	_, err := telemetry.Export{Endpoint: "http://127.0.0.1:4318"}.Start(t.Context(), "s", "v", slog.New(slog.DiscardHandler))
	if !errors.Is(err, telemetry.ErrNoExporter) {
		t.Errorf("%v", err)
	}
	if tracing, err := (telemetry.Export{}).Start(t.Context(), "s", "v", slog.New(slog.DiscardHandler)); tracing != nil || err != nil {
		t.Errorf("without settings: %v, %v", tracing, err)
	}
}
