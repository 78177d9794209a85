package claims

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/pace"
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
func (p *Polls) OldestReady(ctx context.Context) (oldest time.Time, err error) {
	// Without claims, lists may be ready without a notification. Claims may not rely on this scan:
	// no other follows within a second.
	if !p.scannedLately() {
		if _, err := p.scanFrom(ctx, claim.ReadyList{}); err != nil {
			return time.Time{}, err
		}
	}
	since, err := p.store.Claims.OldestGivenBack(ctx, givenBackLanes)
	if err != nil {
		return time.Time{}, err
	}
	if since != nil {
		oldest = *since
	}
	var from scheduler.ListKey
	for {
		begun := time.Now()
		lists, next := p.planner.lists.Known(from, listsPerProbe)
		waiting, err := p.store.Claims.Probe(ctx, lists, 1)
		if err != nil {
			return time.Time{}, err
		}
		for _, list := range waiting {
			if lane, known := p.planner.cached.Lanes.ByID(list.Lane); known && lane.Fair {
				continue // its jobs are among those of OldestGivenBack, and their turns are no times
			}
			if oldest.IsZero() || list.At.Before(oldest) {
				oldest = list.At
			}
		}
		if next == (scheduler.ListKey{}) {
			return oldest, nil
		}
		from = next
		if err := wait.For(ctx, pace.After(begun)); err != nil {
			return time.Time{}, err
		}
	}
}
