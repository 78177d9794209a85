package telemetry_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/shared/server/otlp"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// A path or a User-Agent is as long as a client likes, up to all that headers may have,
// and 2,048 spans wait: what one caller sends must not fill the memory, nor make a batch
// that no collector takes.
func TestAttributesAreCut(t *testing.T) {
	t.Parallel()
	got := make(chan int, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		got <- int(n)
	}))
	defer server.Close()
	tracing, err := telemetry.Export{Exporter: otlp.Start, Endpoint: server.URL}.Start(t.Context(), "s", "v", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracing.Tracer().Start(t.Context(), "a span", trace.WithAttributes(attribute.String("url.path", strings.Repeat("x", 60_000))))
	span.SetAttributes(attribute.String("user_agent.original", strings.Repeat("y", 60_000)))
	span.End()
	tracing.Stop(t.Context())
	if n := <-got; n > 10_000 {
		t.Errorf("a span of two long attributes takes %d bytes", n)
	}
}
