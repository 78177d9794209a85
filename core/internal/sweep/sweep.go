// Package sweep has the background duties, one file each. Every duty may run in all cores at
// once, and none resets anything at start.
package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
)

// Duties makes the duties of a core, from what they share.
type Duties struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	scheduled  func()
	metrics    *metrics.Jobs
	log        *slog.Logger
}

// New makes a Duties. scheduled is called when a duty has made a job scheduled.
func New(store *cell.Cell, d *dispatch.Dispatcher, scheduled func(), m *metrics.Jobs, log *slog.Logger) Duties {
	return Duties{store: store, dispatcher: d, scheduled: scheduled, metrics: m, log: log}
}

const (
	// shortLookback is the lookback of most runs, fullEvery the period of runs without a bound,
	// which find late rows, also after a clock was set back.
	shortLookback = time.Minute
	fullEvery     = 10 * time.Second
)

// window decides how far back a run looks. full is when the last complete run without a bound began.
type window struct{ full time.Time }

// run runs with a lookback.
func (w *window) run(do func(lookback time.Duration) error) error {
	begun := time.Now()
	if begun.Sub(w.full) <= fullEvery {
		return do(shortLookback)
	}
	err := do(jobs.AllTime)
	if err == nil {
		w.full = begun
	}
	return err
}

// maxBatches bounds one run: the rest is left to the next.
const maxBatches = 50

// inBatches calls step until a batch is smaller than size.
func inBatches(size int, step func() (n int, err error)) error {
	for range maxBatches {
		if n, err := step(); err != nil || n < size {
			return err
		}
	}
	return nil
}

// forget deletes in batches what some deletes, and counts it by kind.
func (d Duties) forget(ctx context.Context, kind string, size int, some func(ctx context.Context, batch int) (int, error)) error {
	return inBatches(size, func() (int, error) {
		n, err := some(ctx, size)
		d.metrics.Cleaned.WithLabelValues(kind).Add(float64(n))
		return n, err
	})
}

// byEvent is a requeue's reason, for the metric, that is its event.
func byEvent(one jobs.Reaped) string { return string(one.Event) }

// publish publishes what a duty did to jobs: lanes in which jobs became ready, jobs that changed,
// jobs that ended. reason is that of a requeue, for the metric.
func (d Duties) publish(ctx context.Context, reaped []jobs.Reaped, reason func(jobs.Reaped) string) {
	var ready []jobs.Ready
	var ended []uuid.UUID
	scheduled := false
	for _, one := range reaped {
		ready = d.dispatcher.Released(ready, one.Ready.Lane) // whether it was running is not known
		switch one.Verdict.State {
		case job.Queued:
			ready = append(ready, one.Ready)
			d.metrics.Requeued.WithLabelValues(reason(one)).Inc()
		case job.Scheduled:
			scheduled = true
			d.metrics.Requeued.WithLabelValues(reason(one)).Inc()
		case job.DeadLetter:
			ended = append(ended, one.ID)
			d.metrics.DeadLettered.WithLabelValues(string(one.Verdict.Reason)).Inc()
		default:
			ended = append(ended, one.ID)
			d.metrics.Cancelled.Inc()
		}
	}
	d.dispatcher.Reaped(ctx, reaped)
	d.dispatcher.Changed(jobs.IDs(reaped)...)
	d.dispatcher.Ended(ended...)
	d.dispatcher.Wake(ready)
	if scheduled {
		d.scheduled()
	}
}
