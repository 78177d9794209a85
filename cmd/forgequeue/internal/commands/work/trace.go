package work

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/otelforgequeue"
	"github.com/forgequeue/forgequeue/shared/server/build"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// traceJobs makes a span for each execution if the environment names an exporter. stop sends the last spans.
// A handler, and so a command, gets the traceparent of its own span instead of the submit's.
func traceJobs(ctx context.Context, a *cli.App, w *worker.Worker, logger *slog.Logger) (stop func(), err error) {
	export := telemetry.ExportFrom(a.Getenv)
	export.Exporter = a.Exporter
	if err := export.Check(); err != nil {
		return nil, cli.Environment(err)
	}
	tracing, err := export.Start(ctx, "forgequeue-worker", build.This().Version, logger)
	if err != nil {
		return nil, cli.Environment(err)
	}
	if provider := tracing.Provider(); provider != nil {
		w.Use(traced(otelforgequeue.Work(provider)))
	}
	return func() { tracing.Stop(ctx) }, nil
}

// traced leaves out jobs without a trace: nobody would look for their spans.
func traced(spans func(worker.HandlerFunc) worker.HandlerFunc) func(worker.HandlerFunc) worker.HandlerFunc {
	return func(next worker.HandlerFunc) worker.HandlerFunc {
		inSpan := spans(next)
		return func(ctx context.Context, job *worker.RawJob) (json.RawMessage, error) {
			if !telemetry.ParseTraceparent(ctx, job.Traceparent).IsValid() {
				return next(ctx, job)
			}
			return inSpan(ctx, job)
		}
	}
}
