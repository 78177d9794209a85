package sweep

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/publish"
)

const (
	promoteBatch = 1000
	// promoteRetry is the sleep after an error.
	promoteRetry = time.Second
)

// Promote queues scheduled jobs when they are due. It sleeps until the next one is due, or a job becomes scheduled.
func (d Duties) Promote() *Duty {
	var window window
	return d.kicked(d.engine.Publisher.Scheduled, "promote", func(ctx context.Context) (sleep time.Duration, err error) {
		err = window.run(func(lookback time.Duration) error {
			sleep, err = d.promoteDue(ctx, lookback)
			return err
		})
		return sleep, err
	})
}

// promoteDue promotes every due job, and returns how long to sleep.
func (d Duties) promoteDue(ctx context.Context, lookback time.Duration) (time.Duration, error) {
	next, waiting, err := d.store.Jobs.NextDue(ctx, lookback)
	if err == nil && waiting && next <= 0 {
		if err = d.promote(ctx, lookback); err == nil {
			next, waiting, err = d.store.Jobs.NextDue(ctx, lookback)
		}
	}
	if err != nil {
		return promoteRetry, err
	}
	return untilDue(next, waiting, net), nil
}

func (d Duties) promote(ctx context.Context, lookback time.Duration) error {
	for {
		due, err := d.store.Jobs.Promote(ctx, lookback, promoteBatch)
		if err != nil {
			return err
		}
		d.engine.Publisher.Publish(ctx, publish.Changes{Promoted: due})
		if len(due) < promoteBatch {
			return nil
		}
	}
}
