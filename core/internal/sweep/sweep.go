// Package sweep holds the duties in the background, one file each. Every duty is
// safe in every core at once, and none resets anything at boot.
package sweep

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/queue"
)

// Waker is told of lanes in which jobs became ready.
type Waker func([]queue.LaneID)

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
