package publish

import (
	"context"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
)

// Refresh reads lanes, queue settings and limits now.
func (w *Waker) Refresh(ctx context.Context) error {
	// limits first: a lane is not known before its tenant's are
	if err := w.cached.Limits.Refresh(ctx); err != nil {
		return err
	}
	err := errors.Join(w.refreshLanes(ctx), w.cached.RefreshServed(ctx))
	w.WakeForLanes(w.lists.CapsChanged(func(lane lanes.Lane, full claim.FullCaps) bool {
		return !full.Within(w.cached.RunningCaps(lane, w.cached.Lanes.Settings(lane.Tenant, lane.Queue)))
	}))
	return err
}

// WakeForLanes wakes claims for lanes that are to be asked again, one for each.
func (w *Waker) WakeForLanes(lanes []lanes.Lane) {
	if len(lanes) > 0 {
		w.wake(lanes, min(len(lanes), scheduler.MaxParked))
	}
}

// refreshLanes reads lanes and queue settings, and applies which lanes were created and deleted.
func (w *Waker) refreshLanes(ctx context.Context) error {
	created, gone, err := w.cached.Lanes.Refresh(ctx)
	w.lists.Forget(gone)
	w.wakeCreated(created)
	return err
}

// NewPrimary drops what this core knows of lanes, because PostgreSQL has a new primary, which may lack
// the last of them. It asks no database.
func (w *Waker) NewPrimary() {
	w.lists.Forget(w.cached.Lanes.Forget())
	w.RefreshSoon()
}

// Run refreshes until ctx ends.
func (w *Waker) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var refreshed time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			if !w.refreshDue(time.Since(refreshed)) {
				timer.Reset(refreshCheck)
				continue
			}
		case <-w.refresh:
		}
		refreshed = time.Now()
		if err := w.Refresh(ctx); err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "lanes and limits are not refreshed", "error", err)
		}
		// Notifications of unknown lanes must not make this a busy loop.
		select {
		case <-ctx.Done():
			return
		case <-time.After(refreshGap):
		}
		timer.Reset(refreshEvery)
	}
}

// refreshDue says whether what was read so long ago is to be read again.
func (w *Waker) refreshDue(age time.Duration) bool {
	return !w.arrive() || age >= refreshSeldom-refreshCheck/2
}

// RefreshSoon asks for a refresh; asking twice is asking once.
func (w *Waker) RefreshSoon() { w.refresh.Kick() }
