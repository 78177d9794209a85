package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
)

const (
	lanePeriod = time.Minute
	// laneBatch and laneBatches bound a statement and a run.
	laneBatch   = 1000
	laneBatches = 50
)

// Lanes deletes unused lanes without jobs, and what deleted queues have left, and moves jobs whose lane was
// deleted.
type Lanes struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	metrics    *metrics.Jobs
	log        *slog.Logger
}

// NewLanes makes the duty.
func NewLanes(store *cell.Cell, d *dispatch.Dispatcher, m *metrics.Jobs, log *slog.Logger) *Lanes {
	return &Lanes{store: store, dispatcher: d, metrics: m, log: log}
}

// Run deletes until ctx ends.
func (l *Lanes) Run(ctx context.Context) error {
	every(ctx, lanePeriod, "lanes", l.metrics, l.log, l.RunOnce)
	return nil
}

// RunOnce retires unused lanes and deletes those retired before, each in bounded batches, and moves
// jobs without a lane.
func (l *Lanes) RunOnce(ctx context.Context) error {
	for range laneBatches {
		seen, _, err := l.store.RetireLanes(ctx, laneBatch)
		if err != nil {
			return err
		}
		if seen < laneBatch {
			break
		}
	}
	for range laneBatches {
		seen, deleted, err := l.store.DeleteLanes(ctx, laneBatch)
		if err != nil {
			return err
		}
		l.metrics.Cleaned.WithLabelValues(metrics.CleanedLane).Add(float64(deleted))
		if seen < laneBatch {
			break
		}
	}
	if err := l.settleQueues(ctx); err != nil {
		return err
	}
	moved, err := l.dispatcher.MoveOrphans(ctx, lanePeriod)
	if moved > 0 {
		l.log.InfoContext(ctx, "jobs of deleted lanes were moved", "jobs", moved)
	}
	return err
}

// settleQueues brings back deleted queues that have jobs, and forgets the others after a while.
func (l *Lanes) settleQueues(ctx context.Context) error {
	var place directory.DeletedQueuePlace
	for range laneBatches {
		settled, err := l.store.SettleDeletedQueues(ctx, place, laneBatch)
		if err != nil {
			return err
		}
		if settled.Back > 0 {
			l.dispatcher.RefreshSoon()
		}
		if settled.Seen < laneBatch {
			return nil
		}
		place = settled.Next()
	}
	return nil
}
