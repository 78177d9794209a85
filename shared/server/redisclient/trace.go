package redisclient

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// Trace makes each call a span of the one in its context; a call whose context has none makes none. It must be called
// before the first call.
func (c *Client) Trace(provider trace.TracerProvider) error {
	// No statement: the arguments are keys with tenants' names, and many.
	err := redisotel.InstrumentTracing(library(c), redisotel.WithTracerProvider(below{inner: provider}),
		redisotel.WithDBStatement(false), redisotel.WithCallerEnabled(false), redisotel.WithDialFilter(true))
	if err != nil {
		return fmt.Errorf("spans of redis: %w", err)
	}
	return nil
}

// below makes spans only below a span that is recorded, which redisotel does not ask
// for: a probe, or a flush for requests that were not sampled, would begin a trace.
type below struct {
	embedded.TracerProvider
	inner trace.TracerProvider
}

// Tracer gives a tracer that does so.
func (b below) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return belowTracer{inner: b.inner.Tracer(name, options...)}
}

type belowTracer struct {
	embedded.Tracer
	inner trace.Tracer
}

// Start begins a span, or one that is none.
func (b belowTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, noop.Span{}
	}
	return b.inner.Start(ctx, name, options...)
}
