package watch

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/pace"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// pollEvery is the maximum delay by a lost notification.
	pollEvery = 250 * time.Millisecond
	// watchesPerPoll bounds one statement.
	watchesPerPoll = 1000
)

// Run finds changes of watched jobs whose notification was lost, for some of them each
// time.
func (w *Watches) Run(ctx context.Context) {
	pause := pollEvery
	for wait.For(ctx, pace.Jittered(pause)) == nil {
		pause = pollEvery
		ids := w.Next(watchesPerPoll, pollEvery)
		if len(ids) == 0 {
			continue
		}
		begun := time.Now()
		snapshots, err := w.reads.Snapshots(ctx, ids)
		if err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "watched jobs are not polled for", "error", err)
		}
		for id, now := range snapshots {
			w.Compare(id, now)
		}
		pause = max(pollEvery, pace.After(begun))
	}
}
