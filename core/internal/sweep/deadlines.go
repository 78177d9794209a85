package sweep

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
)

const deadlinePeriod = time.Second

// Deadlines makes dead letters of jobs past their deadline.
func (d Duties) Deadlines() *Duty {
	var window window
	return d.every(deadlinePeriod, "deadlines", func(ctx context.Context) error {
		return window.run(func(lookback time.Duration) error {
			if some, err := d.store.Jobs.AnyPastDeadline(ctx, lookback); err != nil || !some {
				return err
			}
			return d.inReapBatches(ctx, "", func() ([]jobs.Change, error) {
				return d.store.Jobs.ExpireDeadlines(ctx, lookback, reapBatch)
			})
		})
	})
}
