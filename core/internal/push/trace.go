package push

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// ofJob gives a context whose spans are in the job's trace.
func (e *Executor) ofJob(ctx context.Context, claimed *claim.Job) context.Context {
	if e.tracer == nil || claimed.Traceparent == nil {
		return ctx
	}
	return telemetry.Under(ctx, *claimed.Traceparent)
}

// span begins the span of one call and puts it into the request, in place of the job's; endSpan ends
// it. It is not otelhttp's: that records the whole URL, which may contain a tenant's secret, and
// errors with the addresses that names resolve to.
func (e *Executor) span(a *attempt, r *http.Request) (endSpan func(*answer)) {
	return e.spanTo(r.Context(), a, propagation.HeaderCarrier(r.Header), attribute.String("http.request.method", r.Method))
}

func (e *Executor) spanTo(ctx context.Context, a *attempt, carrier propagation.TextMapCarrier, how attribute.KeyValue) (endSpan func(*answer)) {
	if e.tracer == nil || a.job.Traceparent == nil {
		return func(*answer) {}
	}
	parent := e.ofJob(ctx, a.job)
	if !trace.SpanContextFromContext(parent).IsValid() {
		return func(*answer) {}
	}
	inCall, span := e.tracer.Start(parent, "push", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		how,
		attribute.String("server.address", a.target.url.Hostname()),
		attribute.String("forgequeue.tenant.id", a.job.TenantID.String()),
		attribute.String("forgequeue.job.id", a.job.ID.String()),
		attribute.Int("forgequeue.job.attempt", int(a.job.Attempt)),
		attribute.Int("forgequeue.push.try", a.tries),
	))
	propagation.TraceContext{}.Inject(inCall, carrier)
	return func(response *answer) {
		switch {
		case response == nil:
			span.SetStatus(codes.Error, "ended from here")
		case response.failure != nil:
			span.SetStatus(codes.Error, response.failure.kind)
		case response.confirmed:
		default:
			span.SetAttributes(attribute.Int("http.response.status_code", response.status))
			if response.status >= http.StatusBadRequest {
				span.SetStatus(codes.Error, http.StatusText(response.status))
			}
		}
		span.End()
	}
}
