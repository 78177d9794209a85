package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
)

// kicked runs a duty whenever there may be work: after a Kick, and when the time is over that the duty
// gave.
type kicked struct {
	name    string // the label of the metric, and in the log
	metrics *metrics.Jobs
	log     *slog.Logger
	kicks   chan struct{}
}

func newKicked(name string, m *metrics.Jobs, log *slog.Logger) kicked {
	return kicked{name: name, metrics: m, log: log, kicks: make(chan struct{}, 1)}
}

// Kick ends the sleep of the duty. It never blocks.
func (k *kicked) Kick() {
	select {
	case k.kicks <- struct{}{}:
	default:
	}
}

// run runs once, again and again, until ctx ends. once gives how long to sleep.
func (k *kicked) run(ctx context.Context, once func(context.Context) (time.Duration, error)) {
	for ctx.Err() == nil {
		sleep, err := once(ctx)
		if err != nil && ctx.Err() == nil {
			k.metrics.SweepErrors.WithLabelValues(k.name).Inc()
			k.log.WarnContext(ctx, "a background duty failed and will be tried again", "duty", k.name, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-k.kicks:
		case <-time.After(sleep):
		}
	}
}
