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

// traceJobs makes a span of each execution where the environment says where spans go;
// stop sends the last of them. Handlers, and so commands, then find their own span
// in the place of the one that submitted the job.
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

// traced is a handler with a span around it, a child of the one that submitted the
// job. A job without a trace gets none: nobody would look for it.
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
