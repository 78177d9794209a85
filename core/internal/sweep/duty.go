package sweep

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// Duty is work that a core repeats in the background.
type Duty struct {
	name    string // the label of the metric, and in the log
	once    func(context.Context) (sleep time.Duration, err error)
	kicks   publish.Kick
	gap     time.Duration // the least time between two runs, however often it is kicked
	metrics *metrics.Jobs
	log     *slog.Logger
}

// net is the longest sleep of a duty that this core's changes kick: for so long waits what another core stored, which
// died before its own duty came to it.
const net = 5 * time.Second

// longNet is net for what nobody waits for to the second.
const longNet = 10 * time.Second

// dueGap is the least sleep until work is due: what is due and was not done is locked by another transaction.
const dueGap = 5 * time.Millisecond

// untilDue is how long a duty sleeps whose next work is due in next, or that knows of none: at most most.
func untilDue(next time.Duration, some bool, most time.Duration) time.Duration {
	if !some {
		return most
	}
	return min(max(next, dueGap), most)
}

// duty makes a duty. once returns how long to sleep, also with an error.
func (d Duties) duty(name string, once func(context.Context) (sleep time.Duration, err error)) *Duty {
	return d.kicked(publish.NewKick(), name, once)
}

// kicked is duty for one that others kick.
func (d Duties) kicked(kicks publish.Kick, name string, once func(context.Context) (sleep time.Duration, err error)) *Duty {
	return &Duty{name: name, once: once, kicks: kicks, metrics: d.metrics, log: d.log}
}

// kickedSeldom is kicked for one that is kicked often: two runs have at least gap between them.
func (d Duties) kickedSeldom(kicks publish.Kick, gap time.Duration, name string, once func(context.Context) (sleep time.Duration, err error)) *Duty {
	duty := d.kicked(kicks, name, once)
	duty.gap = gap
	return duty
}

// every makes a duty that sleeps for period ± 10 %, so that cores that started together drift apart.
func (d Duties) every(period time.Duration, name string, once func(context.Context) error) *Duty {
	return d.duty(name, func(ctx context.Context) (time.Duration, error) {
		err := once(ctx)
		return jittered(period, 0.1), err
	})
}

// Run runs the duty until ctx ends, each time after its sleep or a Kick. An error is logged, counted and tried again.
func (d *Duty) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		sleep, err := d.once(ctx)
		if err != nil && ctx.Err() == nil {
			d.metrics.SweepErrors.WithLabelValues(d.name).Inc()
			d.log.WarnContext(ctx, "a background duty failed and will be tried again", "duty", d.name, "error", err)
		}
		_ = wait.For(ctx, d.gap) // kicks wait so long; an end of ctx is seen below
		select {
		case <-ctx.Done():
		case <-d.kicks:
		case <-time.After(sleep - d.gap):
		}
	}
	return nil
}

// RunOnce runs the duty once, and returns how long it would sleep.
func (d *Duty) RunOnce(ctx context.Context) (sleep time.Duration, err error) { return d.once(ctx) }

// Kick ends the sleep of the duty. It never blocks.
func (d *Duty) Kick() { d.kicks.Kick() }

// random draws a jitter, uniform in [0, 1).
func random() float64 { return rand.Float64() } //nolint:gosec // spreads load, guards nothing

// jittered draws a duration that differs from mean by at most a part of it.
func jittered(mean time.Duration, part float64) time.Duration {
	return time.Duration((1 - part + 2*part*random()) * float64(mean))
}
