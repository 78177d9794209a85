package dispatch

import (
	"context"
	"log/slog"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/telemetry"
)

// recordAttempt records an ended attempt, once: by its log line, unless logged, and its span where the
// job has a trace. state is the job's new state; failure, if not empty, is the error.
func (d *Dispatcher) recordAttempt(ctx context.Context, ended *jobs.EndedAttempt, outcome, state, failure string, logged bool) {
	if ended == nil {
		return
	}
	d.traces.Attempt(ctx, ended, outcome, state, failure)
	if logged || !d.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	// No error, no payload: they are the tenant's. `job attempts` has them.
	d.log.LogAttrs(ctx, slog.LevelInfo, "attempt",
		slog.String("job", ended.Job.String()),
		slog.String("tenant", ended.Tenant.String()),
		slog.String("queue", ended.Queue),
		slog.String("type", ended.Type),
		slog.Int("attempt", int(ended.Attempt)),
		slog.Int64("epoch", ended.Epoch),
		slog.String("outcome", outcome),
		slog.String("state", state),
		slog.Int64("duration_ms", ended.Ended.Sub(ended.Started).Milliseconds()),
		slog.String("correlation_id", ended.CorrelationID),
		slog.String("trace_id", telemetry.TraceID(ended.Traceparent)),
	)
}

// Reaped records jobs that a duty has ended or requeued, with their attempts.
func (d *Dispatcher) Reaped(ctx context.Context, reaped []jobs.Reaped) {
	d.countReaped(reaped)
	for i := range reaped {
		one := &reaped[i]
		d.recordAttempt(ctx, one.Attempt, string(one.Event), string(one.Verdict.State), string(one.Event), false)
	}
}
