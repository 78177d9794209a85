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
		looks, err := w.reads.Looks(ctx, ids)
		if err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "watched jobs are not polled for", "error", err)
		}
		for id, look := range looks {
			w.Compare(id, Look(look))
		}
		pause = max(pollEvery, pace.After(begun))
	}
}
