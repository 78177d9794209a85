package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The traceparent (W3C Trace Context, section 3.2) travels with the job: in items of
// the hop, its row, its claims. Its tracestate does not.
const (
	header = "traceparent"
	// traceparentSize is version 00's. Later versions may add to it; what they add is
	// not passed on, so neither are they.
	traceparentSize = 55
	traceIDFrom     = 3
	traceIDTo       = 35
)

// ParseTraceparent gives the span that a traceparent names; one that is not valid if
// the text is not well-formed.
func ParseTraceparent(ctx context.Context, text string) trace.SpanContext {
	if len(text) != traceparentSize {
		return trace.SpanContext{}
	}
	none := trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // otherwise malformed text would give ctx's own span
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(none, propagation.MapCarrier{header: text}))
}

// Under gives a context in which spans are children of the one that a traceparent
// names. If the text is not well-formed they have no parent.
func Under(ctx context.Context, traceparent string) context.Context {
	return trace.ContextWithRemoteSpanContext(ctx, ParseTraceparent(ctx, traceparent))
}

// Traceparent names the span of ctx to others; empty if there is none.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[header]
}

// TraceID cuts the trace's id out of a traceparent, for log lines; empty if there is
// none. It judges the form by its length alone.
func TraceID(traceparent string) string {
	if len(traceparent) != traceparentSize {
		return ""
	}
	return traceparent[traceIDFrom:traceIDTo]
}
