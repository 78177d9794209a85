package answers

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

type tracedKey struct{}

// traced is what the spans of a call's items need.
type traced struct {
	tracer trace.Tracer
	name   string
}

// Traced lets the items of a call have spans; not if tracer is nil. The call itself has none: its items are
// of many callers, each with a trace of its own.
func Traced(ctx context.Context, tracer trace.Tracer, path string) context.Context {
	if tracer == nil {
		return ctx
	}
	return context.WithValue(ctx, tracedKey{}, traced{tracer, "core " + path[strings.LastIndexByte(path, '/')+1:]})
}

// noSpan stands for no span.
var noSpan trace.Span = noop.Span{}

// Span begins the span of one item, a child of its caller's. An item without a
// trace, the gateway's own, gets none.
func Span[Req any](ctx context.Context, item *hop.Item[Req]) (context.Context, trace.Span) {
	call, ok := ctx.Value(tracedKey{}).(traced)
	if !ok || item.Traceparent == "" {
		return ctx, noSpan
	}
	parent := telemetry.ParseTraceparent(ctx, item.Traceparent)
	if !parent.IsValid() {
		return ctx, noSpan
	}
	return call.tracer.Start(
		trace.ContextWithRemoteSpanContext(ctx, parent), call.name,
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String("forgequeue.request_id", item.RequestID),
			attribute.String("forgequeue.correlation_id", item.CorrelationID),
			attribute.String("forgequeue.tenant.id", item.Principal.Tenant),
		),
	)
}

// Spans begins the spans of items that are served together; nil where the call
// is not traced.
func Spans[Req any](ctx context.Context, items []hop.Item[Req]) []trace.Span {
	if _, ok := ctx.Value(tracedKey{}).(traced); !ok {
		return nil
	}
	spans := make([]trace.Span, len(items))
	for i := range items {
		_, spans[i] = Span(ctx, &items[i])
	}
	return spans
}

// EndSpan records the result of an item. A caller's mistake is not an error of core's.
func EndSpan[Resp any](span trace.Span, answer *hop.Result[Resp]) {
	if p := answer.Problem; p != nil && span.IsRecording() {
		span.SetAttributes(attribute.String("forgequeue.problem.code", string(p.Code)))
		if p.Status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, string(p.Code))
		}
	}
	span.End()
}
