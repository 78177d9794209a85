package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/queue"
)

const (
	depthPeriod = 15 * time.Second
	// depthMost is the limit of each count, as for the depths of one queue (decision 9).
	depthMost = 10_000
	// depthTime bounds one run. A run that fails leaves the previous values and their timestamp.
	depthTime = 20 * time.Second
)

// Depths measures the numbers of jobs and workers, and the age of the oldest ready job. Every core
// measures: another may have lost its connection.
type Depths struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	depths     *metrics.Depths
	metrics    *metrics.Jobs
	log        *slog.Logger
}

// NewDepths makes the duty.
func NewDepths(store *cell.Cell, d *dispatch.Dispatcher, depths *metrics.Depths, m *metrics.Jobs, log *slog.Logger) *Depths {
	return &Depths{store: store, dispatcher: d, depths: depths, metrics: m, log: log}
}

// Run measures until ctx ends.
func (d *Depths) Run(ctx context.Context) error {
	every(ctx, depthPeriod, "depths", d.metrics, d.log, d.RunOnce)
	return nil
}

// RunOnce measures once.
func (d *Depths) RunOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, depthTime)
	defer cancel()
	totals, err := d.store.Totals(ctx, depthMost)
	if err != nil {
		return err
	}
	for state, total := range map[job.State]queue.Total{
		job.Blocked: totals.Blocked, job.Scheduled: totals.Scheduled, job.Queued: totals.Queued,
		job.Running: totals.Running, job.DeadLetter: totals.DeadLetter,
	} {
		d.depths.Jobs(string(state), total.N, total.Capped)
	}
	for status, n := range map[string]int64{"active": totals.Active, "stale": totals.Stale, "dead": totals.Dead} {
		d.depths.Workers(status, n)
	}
	oldest, err := d.dispatcher.OldestReady(ctx)
	if err != nil {
		return err
	}
	var age time.Duration
	if !oldest.IsZero() {
		age = max(totals.Now.Sub(oldest), 0)
	}
	d.depths.Measured(age)
	return nil
}
