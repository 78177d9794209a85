package sweep

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/queues"
)

const (
	lanePeriod = time.Minute
	laneBatch  = 1000
)

// Lanes deletes unused lanes without jobs, and what deleted queues have left, and moves jobs whose lane was
// deleted.
func (d Duties) Lanes() *Duty { return d.every(lanePeriod, "lanes", d.cleanLanes) }

// cleanLanes retires unused lanes and deletes those retired before, each in bounded batches, and moves
// jobs without a lane.
func (d Duties) cleanLanes(ctx context.Context) error {
	if err := inBatches(laneBatch, func() (int, error) {
		seen, _, err := d.store.Lanes.Retire(ctx, laneBatch)
		return seen, err
	}); err != nil {
		return err
	}
	if err := inBatches(laneBatch, func() (int, error) {
		seen, deleted, err := d.store.Lanes.Delete(ctx, laneBatch)
		d.metrics.Cleaned.WithLabelValues(metrics.CleanedLane).Add(float64(deleted))
		return seen, err
	}); err != nil {
		return err
	}
	if err := d.settleQueues(ctx); err != nil {
		return err
	}
	moved, err := d.engine.Submits.MoveOrphans(ctx, lanePeriod)
	if moved > 0 {
		d.log.InfoContext(ctx, "jobs of deleted lanes were moved", "jobs", moved)
	}
	return err
}

// settleQueues brings back deleted queues that have jobs, and forgets the others after a while.
func (d Duties) settleQueues(ctx context.Context) error {
	var place queues.DeletedPlace
	return inBatches(laneBatch, func() (int, error) {
		settled, err := d.store.Queues.SettleDeleted(ctx, place, laneBatch)
		if err != nil {
			return 0, err
		}
		if settled.Back > 0 {
			d.engine.Publisher.RefreshSoon()
		}
		place = settled.Next()
		return settled.Seen, nil
	})
}
