package sweep

import (
	"context"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/queue"
)

const (
	// ReapPeriod is how often expired leases are looked for.
	ReapPeriod = time.Second
	reapBatch  = 500
	// reapPause lies between two batches of a mass expiry, so that its jobs do not
	// all come back in one instant, and claims get their turn.
	reapPause = 50 * time.Millisecond
)

// Reaper takes expired leases back.
type Reaper struct {
	store      *queue.Store
	dispatcher *dispatch.Dispatcher
	kick       func()
	metrics    *metrics.Jobs
	log        *slog.Logger
	// since is when this core, or PostgreSQL, came up, by PostgreSQL's clock; nil
	// where that is not known yet. Until a third of a visibility timeout has passed
	// since then, holders speak first.
	since *time.Time
	reach reach
}

// NewReaper makes a Reaper. kick is called when a job starts to wait for its time.
func NewReaper(store *queue.Store, d *dispatch.Dispatcher, kick func(), m *metrics.Jobs, log *slog.Logger) *Reaper {
	return &Reaper{store: store, dispatcher: d, kick: kick, metrics: m, log: log}
}

// Run reaps until ctx ends.
func (r *Reaper) Run(ctx context.Context) error {
	every(ctx, ReapPeriod, "reap", r.metrics, r.log, r.RunOnce)
	return nil
}

// RunOnce takes back every lease that has expired by now.
func (r *Reaper) RunOnce(ctx context.Context) error {
	if r.since == nil {
		now, err := r.store.Now(ctx)
		if err != nil {
			return err
		}
		r.since = &now
	}
	back, done := r.reach.next()
	var place queue.ReapPlace
	for {
		reaped, next, err := r.store.ReapAfter(ctx, *r.since, back, place, reapBatch, random)
		if err != nil {
			r.since = nil // whoever could not reach PostgreSQL now could not reach it either
			return err
		}
		for _, one := range reaped {
			r.metrics.ReapDelay.Observe(one.Late.Seconds())
		}
		if len(reaped) > 0 {
			r.log.InfoContext(ctx, "leases taken back", "count", len(reaped))
		}
		tell(ctx, r.dispatcher, r.metrics, reaped, byEvent, r.kick)
		if len(reaped) < reapBatch {
			done()
			return nil
		}
		place = next
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause lies between two batches.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration((0.5 + random()) * float64(reapPause))):
		return nil
	}
}
