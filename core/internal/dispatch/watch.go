package dispatch

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/watch"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// WaitJob gives the job when it is in the state that the caller waits for, or as it is when the
// wait is over. An unknown job is store.ErrNotFound.
func (d *Dispatcher) WaitJob(ctx context.Context, call watch.Call) (api.Job, error) {
	return d.watches.Wait(ctx, call, d.draining, func(ctx context.Context) (api.Job, error) {
		return d.store.JobReads.Get(ctx, call.Tenant, call.User, call.ID)
	})
}

// Changed wakes the watches of these jobs, in this core.
func (d *Dispatcher) Changed(ids ...uuid.UUID) {
	if len(ids) > 0 {
		d.watches.Wake(ids)
	}
}

// Ended wakes the watches of these jobs, in every core.
func (d *Dispatcher) Ended(ids ...uuid.UUID) {
	if len(ids) > 0 {
		d.watches.Wake(ids)
		d.publishEnded(ids)
	}
}

// watchesPerPoll bounds one statement.
const watchesPerPoll = 1000

// pollWatches finds changes of watched jobs whose notification was lost, for some of them each
// time.
func (d *Dispatcher) pollWatches(ctx context.Context) {
	pause := pollEvery
	for wait.For(ctx, jittered(pause)) == nil {
		pause = pollEvery
		ids := d.watches.Next(watchesPerPoll, pollEvery)
		if len(ids) == 0 {
			continue
		}
		begun := time.Now()
		looks, err := d.store.JobReads.Looks(ctx, ids)
		if err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "watched jobs are not polled for", "error", err)
		}
		for id, look := range looks {
			d.watches.Compare(id, watch.Look(look))
		}
		pause = max(pollEvery, pauseAfter(begun))
	}
}
