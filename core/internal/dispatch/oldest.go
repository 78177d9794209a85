package dispatch

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// givenBackLanes bounds the lanes whose jobs that were given back are looked at.
const givenBackLanes = 10_000

// OldestReady gives when the job that has waited longest, in any queue of any tenant, became ready,
// by PostgreSQL's clock; the zero time where none waits. A job that was given back, as by a probe of a
// breaker, has waited since before. It probes each list from its lookback,
// past the dead entries before it, and like the fallback polls takes a twentieth of a connection's
// time.
func (d *Dispatcher) OldestReady(ctx context.Context) (oldest time.Time, err error) {
	// Without claims, lists may be ready without a notification. Claims may not rely on this scan:
	// no other follows within a second.
	if !d.scannedLately() {
		if _, err := d.scanFrom(ctx, claim.ReadyList{}); err != nil {
			return time.Time{}, err
		}
	}
	since, err := d.store.Claims.OldestGivenBack(ctx, givenBackLanes)
	if err != nil {
		return time.Time{}, err
	}
	if since != nil {
		oldest = *since
	}
	var from scheduler.ListKey
	for {
		begun := time.Now()
		lists, next := d.lists.Known(from, listsPerProbe)
		waiting, err := d.store.Claims.Probe(ctx, lists, 1)
		if err != nil {
			return time.Time{}, err
		}
		for _, list := range waiting {
			if oldest.IsZero() || list.At.Before(oldest) {
				oldest = list.At
			}
		}
		if next == (scheduler.ListKey{}) {
			return oldest, nil
		}
		from = next
		if err := wait.For(ctx, pauseAfter(begun)); err != nil {
			return time.Time{}, err
		}
	}
}
