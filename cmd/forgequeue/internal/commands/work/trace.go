package work

import (
	"context"
	"encoding/json"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/build"
	"github.com/forgequeue/forgequeue/shared/telemetry"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// traceJobs makes a span for each execution if the environment names an exporter. stop sends the last spans.
// A handler, and so a command, gets the traceparent of its own span instead of the submit's.
func traceJobs(ctx context.Context, getenv func(string) string, w *worker.Worker, logger *slog.Logger) (stop func(), err error) {
	export := telemetry.ExportFrom(getenv)
	if err := export.Check(); err != nil {
		return nil, cli.Environment(err)
	}
	tracing, err := export.Start(ctx, "forgequeue-worker", build.This().Version, logger)
	if err != nil {
		return nil, cli.Environment(err)
	}
	if tracer := tracing.Tracer(); tracer != nil {
		w.Use(func(next worker.HandlerFunc) worker.HandlerFunc { return traced(tracer, next) })
	}
	return func() { tracing.Stop(ctx) }, nil
}

// traced wraps a handler in a span, a child of the one that submitted the job. A job without a trace gets no span.
func traced(tracer trace.Tracer, next worker.HandlerFunc) worker.HandlerFunc {
	return func(ctx context.Context, job *worker.RawJob) (json.RawMessage, error) {
		if !telemetry.ParseTraceparent(ctx, job.Traceparent).IsValid() {
			return next(ctx, job)
		}
		ctx, span := tracer.Start(
			telemetry.Under(ctx, job.Traceparent), "process "+job.Type,
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
				attribute.String("forgequeue.tenant.id", job.Tenant),
				attribute.String("forgequeue.job.id", job.ID),
				attribute.String("forgequeue.job.type", job.Type),
				attribute.String("forgequeue.job.queue", job.Queue),
				attribute.Int("forgequeue.job.attempt", job.Attempt),
				attribute.String("forgequeue.correlation_id", job.CorrelationID),
			),
		)
		defer span.End()
		own := *job
		own.Traceparent = telemetry.Traceparent(ctx)
		result, err := next(ctx, &own)
		if err != nil && !worker.Snoozed(err) {
			span.SetStatus(codes.Error, err.Error())
		}
		return result, err
	}
}
