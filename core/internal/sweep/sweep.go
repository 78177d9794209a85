// Package sweep holds the background duties, one file each. Every duty may run in all cores at
// once, and none resets anything at start.
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
	// shortLookback is the lookback of most runs, fullEvery the period of runs without a bound,
	// which find late rows, also after a clock was set back.
	shortLookback = time.Minute
	fullEvery     = 10 * time.Second
)

// lookback decides the lookback of a run.
type lookback struct{ full time.Time }

// next gives the lookback, and what to call after a complete run.
func (r *lookback) next() (back time.Duration, done func()) {
	if begun := time.Now(); time.Since(r.full) > fullEvery {
		return queue.AllTime, func() { r.full = begun }
	}
	return shortLookback, func() {}
}

// byEvent counts each job by its event.
const byEvent = ""

// publish publishes the results of all duties: lanes in which jobs became ready, jobs that changed,
// jobs that ended. because is the reason of the requeue for the metric, or byEvent.
func publish(ctx context.Context, d *dispatch.Dispatcher, m *metrics.Jobs, reaped []queue.Reaped, because string, kick func()) {
	var ready []queue.Ready
	var over []uuid.UUID
	scheduled := false
	for _, one := range reaped {
		ready = d.Released(ready, one.Ready.Lane) // whether it was running is not known
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
