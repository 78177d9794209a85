package dispatch

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// Three fallback polls follow the wake-ups, each slower and more complete:
//
//   - a claim without wait probes the lists of its lanes where none is known to be ready;
//   - the lookback poll, four times a second, probes the known lists from a second before
//     each cursor: jobs of which no notification came, and those that were committed after
//     a claim had passed them;
//   - the scan goes once a second from list to list through the whole ready index: it finds
//     unknown lists too. Under an old snapshot it is expensive; it takes at most a twentieth
//     of a connection's time and is then later.
const (
	// pollEvery is the maximum delay by a lost wake-up.
	pollEvery = 250 * time.Millisecond
	// pollWakes is how many claims one ready list wakes in one poll.
	pollWakes = 8
	// listsPerProbe and listsPerScan bound one statement.
	listsPerProbe = 2000
	listsPerScan  = 500
	// lanesPerProbe bounds the lanes that a claim probes: more than a tenant has. A claim of the
	// platform probes others the next time.
	lanesPerProbe = 2500
	scanEvery     = time.Second
	// pollShare is the share of its time that a poll may spend in PostgreSQL: one part in
	// pollShare.
	pollShare = 20
	// scanFresh is the maximum age of a scan for the ready lists to be relied on.
	scanFresh = 10 * scanEvery
)

// fallbackPolls is when claims and scans last ran.
type fallbackPolls struct {
	// claimed is the last claim, scanned the start of the last complete scan; both in Unix
	// nanoseconds.
	claimed, scanned atomic.Int64
}

// pollsNeeded says whether there are claims: without them PostgreSQL is not polled.
func (d *Dispatcher) pollsNeeded() bool {
	return d.parking.Count() > 0 || time.Since(time.Unix(0, d.polls.claimed.Load())) < 4*scanEvery
}

// scannedLately says whether the ready lists can be relied on.
func (d *Dispatcher) scannedLately() bool {
	return time.Since(time.Unix(0, d.polls.scanned.Load())) < scanFresh
}

// poll finds jobs whose wake-up was lost, for all parked claims at once: its cost does not depend
// on their number.
func (d *Dispatcher) poll(ctx context.Context) {
	var from scheduler.ListKey
	pause := pollEvery
	for {
		if wait.For(ctx, jittered(pause)) != nil {
			return
		}
		pause = pollEvery
		if !d.pollsNeeded() {
			continue
		}
		begun := time.Now()
		d.wakeForLanes(d.lists.Retry(tenant.Platform, begun))
		lists, next := d.lists.Known(from, listsPerProbe)
		found, err := d.store.Claims.Probe(ctx, d.lists.WithoutCapped(lists), pollWakes)
		if err != nil {
			if ctx.Err() == nil {
				d.log.WarnContext(ctx, "parked claims are not polled for", "error", err)
			}
			from = next // a list that takes too long must not starve the others
			continue
		}
		from = next
		d.WakeHere(found)
		pause = max(pollEvery, pauseAfter(begun))
	}
}

// scan finds the lists in which jobs wait, also those without notifications.
func (d *Dispatcher) scan(ctx context.Context) {
	var place claim.ReadyList // where an error ended the last one
	begun := time.Now()
	for {
		if d.pollsNeeded() || d.polls.scanned.Load() == 0 {
			if place == (claim.ReadyList{}) {
				begun = time.Now()
			}
			var err error
			if place, err = d.scanFrom(ctx, place); err == nil {
				d.polls.scanned.Store(begun.UnixNano())
			} else if ctx.Err() == nil {
				d.log.WarnContext(ctx, "the ready index is not scanned", "error", err)
			}
		}
		if wait.For(ctx, jittered(scanEvery)) != nil {
			return
		}
	}
}

// scanFrom scans all lists after a place, batch by batch, in a twentieth of the time, and gives the
// place where an error ended it.
func (d *Dispatcher) scanFrom(ctx context.Context, after claim.ReadyList) (claim.ReadyList, error) {
	for {
		begun := time.Now()
		found, err := d.store.Claims.Scan(ctx, after, listsPerScan)
		if err != nil {
			return after, err
		}
		waiting := make([]jobs.Waiting, 0, len(found))
		for _, one := range found {
			if !d.lists.IsCapped(one.Lane) {
				waiting = append(waiting, jobs.Waiting{Ready: one, Jobs: 1})
			}
		}
		d.WakeHere(waiting)
		if len(found) < listsPerScan {
			_ = wait.For(ctx, pauseAfter(begun)-scanEvery)
			return claim.ReadyList{}, nil
		}
		last := found[len(found)-1]
		after = claim.ReadyList{Lane: last.Lane, Priority: last.Priority}
		if err := wait.For(ctx, pauseAfter(begun)); err != nil {
			return after, err
		}
	}
}

// probe probes the lists of the filter's lanes: the known ones after a recent scan, otherwise all
// possible ones. Lists with jobs become ready.
func (d *Dispatcher) probe(ctx context.Context, filter *scheduler.Filter) (found bool, err error) {
	serving := d.lanes.Serving(filter, d.offset.Load(), lanesPerProbe)
	lists := d.lists.OfLanes(serving, !d.scannedLately(), lanesPerProbe*(api.MaxPriority+1))
	found = len(d.lists.Retry(filter.Owner, time.Now())) > 0
	for len(lists) > 0 {
		some := lists[:min(len(lists), listsPerProbe)]
		lists = lists[len(some):]
		waiting, err := d.store.Claims.Probe(ctx, some, 1)
		if err != nil {
			return found, err
		}
		for _, one := range waiting {
			d.lists.Notify([]jobs.Ready{one.Ready})
		}
		found = found || len(waiting) > 0
	}
	return found, nil
}

// pauseAfter is the pause that limits a poll to its share of the time. It is bounded: one long
// statement does not predict the next, PostgreSQL may have stalled.
func pauseAfter(begun time.Time) time.Duration {
	return min((pollShare-1)*time.Since(begun), scanFresh)
}

// jittered is up to a fifth shorter, so that cores do not poll at the same time.
func jittered(wait time.Duration) time.Duration {
	return wait - time.Duration(rand.Int64N(int64(wait/5))) //nolint:gosec // spreads cores, guards nothing
}
