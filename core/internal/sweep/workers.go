package sweep

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/workers"
)

const workerPeriod = 5 * time.Second

// workerAges ages workers without a heartbeat.
type workerAges struct {
	Duties

	// answered is when PostgreSQL last answered, since when it has done so without an outage in
	// which workers would have turned stale; both by its clock.
	answered, since time.Time
	// dead are dead workers, as workers.Workers.Dead names them, that had no leases in emptyReaps runs in a row.
	dead       string
	emptyReaps int
}

// maxEmptyReaps is how often dead workers are found without leases before they are left alone: one may be skipped that
// another transaction has locked. Dead workers are shown for a day, and each look reads all running jobs.
const maxEmptyReaps = 2

// Workers ages workers without a heartbeat: stale, dead, deleted. A dead one loses its leases at
// once.
func (d Duties) Workers() *Duty {
	w := &workerAges{Duties: d}
	return d.every(workerPeriod, "workers", w.ageAndReap)
}

// ageAndReap ages every worker, and reaps the leases of dead ones until there are none: a core may have died
// between the two. After a start, and after an outage of PostgreSQL, in which no heartbeat was
// stored, workers have time for one heartbeat first.
func (w *workerAges) ageAndReap(ctx context.Context) error {
	now, dead, err := w.store.Workers.Dead(ctx)
	if err != nil {
		return err
	}
	if w.answered.IsZero() || now.Sub(w.answered) >= workers.StaleAfter || now.Before(w.answered) {
		w.since = now
	}
	w.answered = now
	if now.Sub(w.since) >= workers.StaleAfter {
		died, err := w.age(ctx)
		if err != nil {
			return err
		}
		if died {
			if _, dead, err = w.store.Workers.Dead(ctx); err != nil {
				return err
			}
		}
	}
	return w.reapDead(ctx, dead)
}

// age ages every worker, and says whether any died.
func (w *workerAges) age(ctx context.Context) (died bool, err error) {
	aged, err := w.store.Workers.Age(ctx, w.answered)
	if err != nil {
		return false, err
	}
	w.metrics.Workers.Lost.Add(float64(aged.Dead))
	w.metrics.Workers.Pruned.Add(float64(aged.Forgotten))
	if aged != (workers.Aged{}) {
		w.log.InfoContext(ctx, "workers without a heartbeat", "stale", aged.Stale, "dead", aged.Dead, "forgotten", aged.Forgotten)
	}
	return aged.Dead > 0, nil
}

// reapDead reaps the leases of dead workers, which dead names.
func (w *workerAges) reapDead(ctx context.Context, dead string) error {
	if dead == "" || dead == w.dead && w.emptyReaps >= maxEmptyReaps {
		return nil
	}
	if dead != w.dead {
		w.dead, w.emptyReaps = dead, 0
	}
	w.emptyReaps++
	return w.inReapBatches(ctx, metrics.WorkerDead, func() ([]jobs.Change, error) {
		reaped, err := w.store.Jobs.ReapDead(ctx, reapBatch, random)
		if len(reaped) > 0 {
			w.emptyReaps = 0
		}
		return reaped, err
	})
}
