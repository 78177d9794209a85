package sweep

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
)

// deadlineGap is the least time between two looks, and so how late a deadline may be: most jobs end before theirs.
const deadlineGap = time.Second

// Deadlines makes dead letters of jobs past their deadline. It sleeps until the next deadline, or a job gets one.
func (d Duties) Deadlines() *Duty {
	var window window
	return d.kickedSeldom(d.engine.Publisher.Deadlines, deadlineGap, "deadlines", func(ctx context.Context) (sleep time.Duration, err error) {
		err = window.run(func(lookback time.Duration) error {
			sleep, err = d.expireDeadlines(ctx, lookback)
			return err
		})
		return sleep, err
	})
}

// expireDeadlines makes dead letters of the jobs past their deadline, and returns how long to sleep.
func (d Duties) expireDeadlines(ctx context.Context, lookback time.Duration) (time.Duration, error) {
	next, some, err := d.store.Jobs.NextDeadline(ctx, lookback, net)
	if err == nil && some && next <= 0 {
		if err = d.inReapBatches(ctx, "", func() ([]jobs.Change, error) {
			return d.store.Jobs.ExpireDeadlines(ctx, lookback, reapBatch)
		}); err == nil {
			next, some, err = d.store.Jobs.NextDeadline(ctx, lookback, net)
		}
	}
	if err != nil {
		return deadlineGap, err
	}
	return max(untilDue(next+dueGap, some, net), deadlineGap), nil
}
