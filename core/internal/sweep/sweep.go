// Package sweep holds the duties in the background, one file each. Every duty is
// safe in every core at once, and none resets anything at boot.
package sweep

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/queue"
)

const (
	// shortLookback is how far back a duty looks most of the time, fullEvery how often it
	// looks at everything: what came late, or was left by a clock that was set back.
	shortLookback = time.Minute
	fullEvery     = 10 * time.Second
)

// lookback says how far back a duty looks this time.
type lookback struct{ full time.Time }

// next gives the lookback, and what to call once a look came to its end.
func (r *lookback) next() (back time.Duration, done func()) {
	if begun := time.Now(); time.Since(r.full) > fullEvery {
		return queue.AllTime, func() { r.full = begun }
	}
	return shortLookback, func() {}
}

// byEvent says that jobs went back for what happened to them.
const byEvent = ""

// publish is the one way in which a duty's work becomes known: lanes in which jobs
// became ready, jobs that went on, jobs that ended. because is why they went back in
// line, or byEvent.
func publish(ctx context.Context, d *dispatch.Dispatcher, m *metrics.Jobs, reaped []queue.Reaped, because string, kick func()) {
	var ready []queue.Ready
	var over []uuid.UUID
	scheduled := false
	for _, one := range reaped {
		reason := because
		if reason == byEvent {
			reason = string(one.Event)
		}
		switch one.Verdict.State {
		case job.Queued:
			ready = append(ready, one.Ready)
			m.Requeued.WithLabelValues(reason).Inc()
		case job.Scheduled:
			scheduled = true
			m.Requeued.WithLabelValues(reason).Inc()
		case job.DeadLetter:
			over = append(over, one.ID)
			m.DeadLettered.WithLabelValues(string(one.Verdict.Reason)).Inc()
		default:
			over = append(over, one.ID)
			m.Cancelled.Inc()
		}
	}
	d.Reaped(ctx, reaped)
	d.Changed(queue.IDs(reaped)...)
	d.Ended(over...)
	d.Wake(ready)
	if scheduled {
		kick()
	}
}

// random draws a jitter, uniform in [0, 1).
func random() float64 { return rand.Float64() } //nolint:gosec // spreads load, guards nothing

// every runs duty until ctx ends, waiting about period between the end of one run
// and the start of the next. An error is logged, counted and tried again.
func every(ctx context.Context, period time.Duration, name string, m *metrics.Jobs, log *slog.Logger, duty func(context.Context) error) {
	for {
		if err := duty(ctx); err != nil && ctx.Err() == nil {
			m.SweepErrors.WithLabelValues(name).Inc()
			log.WarnContext(ctx, "a background duty failed and will be tried again", "duty", name, "error", err)
		}
		// ± 10 %, so that cores that started together drift apart
		wait := time.Duration(float64(period) * (0.9 + 0.2*random()))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}
