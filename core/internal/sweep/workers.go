package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const workerPeriod = 5 * time.Second

// Workers ages workers without a heartbeat: stale, dead, deleted. A dead one loses its leases at
// once.
type Workers struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	kick       func()
	metrics    *metrics.Jobs
	log        *slog.Logger

	// answered is when PostgreSQL last answered, since when it has done so without an outage in
	// which workers would have turned stale; both by its clock.
	answered, since time.Time
	// reaped are dead workers, as DeadWorkers names them, that had no leases in so many runs in a row.
	reaped string
	none   int
}

// noneTwice is how often dead workers are found without leases before they are left alone: one may be skipped that
// another transaction has locked. Dead workers are shown for a day, and each look reads all running jobs.
const noneTwice = 2

// NewWorkers makes the duty. kick is called when a job becomes scheduled.
func NewWorkers(store *cell.Cell, d *dispatch.Dispatcher, kick func(), m *metrics.Jobs, log *slog.Logger) *Workers {
	return &Workers{store: store, dispatcher: d, kick: kick, metrics: m, log: log}
}

// Run ages workers until ctx ends.
func (w *Workers) Run(ctx context.Context) error {
	every(ctx, workerPeriod, "workers", w.metrics, w.log, w.RunOnce)
	return nil
}

// RunOnce ages every worker, and reaps the leases of dead ones until there are none: a core may have died
// between the two. After a start, and after an outage of PostgreSQL, in which no heartbeat was
// stored, workers have time for one heartbeat first.
func (w *Workers) RunOnce(ctx context.Context) error {
	now, err := w.store.Now(ctx)
	if err != nil {
		return err
	}
	if w.answered.IsZero() || now.Sub(w.answered) >= directory.StaleAfter || now.Before(w.answered) {
		w.since = now
	}
	w.answered = now
	if now.Sub(w.since) >= directory.StaleAfter {
		if err := w.age(ctx); err != nil {
			return err
		}
	}
	return w.reapDead(ctx)
}

func (w *Workers) age(ctx context.Context) error {
	aged, err := w.store.AgeWorkers(ctx, w.answered)
	if err != nil {
		return err
	}
	w.metrics.Workers.Lost.Add(float64(aged.Dead))
	w.metrics.Workers.Pruned.Add(float64(aged.Forgotten))
	if aged != (directory.Aged{}) {
		w.log.InfoContext(ctx, "workers without a heartbeat", "stale", aged.Stale, "dead", aged.Dead, "forgotten", aged.Forgotten)
	}
	return nil
}

// reapDead reaps the leases of dead workers.
func (w *Workers) reapDead(ctx context.Context) error {
	dead, err := w.store.DeadWorkers(ctx)
	if err != nil || dead == "" || dead == w.reaped && w.none >= noneTwice {
		return err
	}
	if dead != w.reaped {
		w.reaped, w.none = dead, 0
	}
	for w.none++; ; {
		reaped, err := w.store.ReapDead(ctx, reapBatch, random)
		if err != nil {
			return err
		}
		publish(ctx, w.dispatcher, w.metrics, reaped, metrics.WorkerDead, w.kick)
		if len(reaped) > 0 {
			w.none = 0
		}
		if len(reaped) < reapBatch {
			return nil
		}
		if err := wait.About(ctx, reapPause); err != nil {
			return err
		}
	}
}
