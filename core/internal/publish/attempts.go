package publish

import (
	"context"
	"log/slog"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// recordAttempt records the attempt that ended with a change, if one did.
func (p *Publisher) recordAttempt(ctx context.Context, one *jobs.Change) {
	p.attempt(ctx, one.Attempt, string(one.Event), one.Verdict.State, string(one.Event), false)
}

// attempt records an ended attempt, once: by its log line, unless logged, and its span where the
// job has a trace. state is the job's new state; failure, if not empty, is the error.
func (p *Publisher) attempt(ctx context.Context, ended *jobs.EndedAttempt, outcome string, state job.State, failure string, logged bool) {
	if ended == nil {
		return
	}
	p.traces.Attempt(ctx, ended, outcome, string(state), failure)
	if logged || !p.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	// No error, no payload: they are the tenant's. `job attempts` has them.
	p.log.LogAttrs(ctx, slog.LevelInfo, "attempt",
		slog.String("job", ended.Job.String()),
		slog.String("tenant", ended.Tenant.String()),
		slog.String("queue", ended.Queue),
		slog.String("type", ended.Type),
		slog.Int("attempt", int(ended.Attempt)),
		slog.Int64("epoch", ended.Epoch),
		slog.String("outcome", outcome),
		slog.String("state", string(state)),
		slog.Int64("duration_ms", ended.Ended.Sub(ended.Started).Milliseconds()),
		slog.String("correlation_id", ended.CorrelationID),
		slog.String("trace_id", telemetry.TraceID(ended.Traceparent)),
	)
}
