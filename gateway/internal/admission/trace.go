package admission

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// Trace makes each call of Redis a span of the request that it is for. Calls for no
// request (probes, hints, pings) make none. A nil provider changes nothing. It must
// be called before the first call.
func (r *Redis) Trace(provider trace.TracerProvider) error {
	if provider == nil || r.client == nil {
		return nil
	}
	r.traced = true
	// No statement: the arguments are keys with tenants' names, and many.
	err := redisotel.InstrumentTracing(r.client, redisotel.WithTracerProvider(below{inner: provider}),
		redisotel.WithDBStatement(false), redisotel.WithCallerEnabled(false), redisotel.WithDialFilter(true))
	if err != nil {
		return fmt.Errorf("spans of redis: %w", err)
	}
	return nil
}

// spanned gives the context of a flush the span of the first of its requests whose spans
// are recorded: one call is made for all of them, and a span has one parent.
func (l *Limiter) spanned(ctx context.Context, questions []question) context.Context {
	if l.traced {
		for _, q := range questions {
			if q.span.IsRecording() {
				return trace.ContextWithSpan(ctx, q.span)
			}
		}
	}
	return ctx
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
