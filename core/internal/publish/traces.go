package publish

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// maxLinks bounds the links of one flush's span.
const maxLinks = 32

// noSpan is used where there is no trace.
var noSpan trace.Span = noop.Span{}

// Traces makes the spans of flushes and of ended attempts. With a nil Tracer it makes none and
// reads no contexts.
type Traces struct{ Tracer trace.Tracer }

// RequestSpan is the span of ctx's request.
func (t Traces) RequestSpan(ctx context.Context) trace.SpanContext {
	if t.Tracer == nil {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(ctx)
}

// Flush begins the span of a flush; its statements are children. Its parent is the first of its n
// requests whose trace is sampled; it links to the other sampled ones: a span has one parent. ctx
// is the group commit's, which has no values.
func (t Traces) Flush(ctx context.Context, name string, n int, request func(int) trace.SpanContext) (context.Context, trace.Span) {
	if t.Tracer == nil {
		return ctx, noSpan
	}
	var parent, last trace.SpanContext
	var links []trace.Link
	for i := range n {
		one := request(i)
		if !one.IsSampled() || one.SpanID() == last.SpanID() { // all requests of a batch have one span
			continue
		}
		if last = one; !parent.IsValid() {
			parent = one
		} else if len(links) < maxLinks {
			links = append(links, trace.Link{SpanContext: one})
		}
	}
	ctx = trace.ContextWithSpanContext(ctx, parent)
	if !parent.IsValid() {
		return ctx, noSpan
	}
	return t.Tracer.Start(ctx, "flush "+name, trace.WithLinks(links...), trace.WithAttributes(attribute.Int("forgequeue.flush.requests", n)))
}

// Attempt makes the span of an ended attempt, a child of the span that submitted the job. failure,
// if not empty, is the error.
func (t Traces) Attempt(ctx context.Context, ended *jobs.EndedAttempt, outcome, state, failure string) {
	if t.Tracer == nil || ended == nil {
		return
	}
	parent := telemetry.ParseTraceparent(ctx, ended.Traceparent)
	if !parent.IsValid() {
		return
	}
	_, span := t.Tracer.Start(
		trace.ContextWithRemoteSpanContext(ctx, parent), "attempt",
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(ended.Started),
		trace.WithAttributes(
			attribute.String("forgequeue.tenant.id", ended.Tenant.String()),
			attribute.String("forgequeue.job.id", ended.Job.String()),
			attribute.String("forgequeue.job.type", ended.Type),
			attribute.String("forgequeue.job.queue", ended.Queue),
			attribute.Int("forgequeue.job.attempt", int(ended.Attempt)),
			attribute.String("forgequeue.job.state", state),
			attribute.String("forgequeue.outcome", outcome),
		),
	)
	if failure != "" {
		span.SetStatus(codes.Error, failure)
	}
	span.End(trace.WithTimestamp(ended.Ended))
}
