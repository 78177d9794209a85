package dispatch

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// Three fallback polls lie under the wake-ups, each slower and with smaller holes:
//
//   - a claim without wait looks at the lists of its lanes where it believes nothing to
//     be there;
//   - the look-back, four times a second, looks at the lists that are known, from a second
//     behind each cursor: jobs stored elsewhere of which no hint came, and those that
//     were committed after a claim had passed them;
//   - the scan goes once a second from list to list through the whole ready index: new
//     lists, and whatever else. Under an old snapshot it costs much; it may take a
//     twentieth of a connection's time and is then later.
const (
	// pollEvery is how long a wake-up that got lost costs at most.
	pollEvery = 250 * time.Millisecond
	// pollWakes is how many claims one ready list wakes in one poll.
	pollWakes = 8
	// listsPerLook and listsPerScan bound one statement.
	listsPerLook = 2000
	listsPerScan = 500
	// lanesPerLook bounds the lanes that a claim looks at: more than a tenant has. A
	// claim of the platform looks at others the next time.
	lanesPerLook = 2500
	scanEvery    = time.Second
	// pollShare is which part of its time a net may spend with PostgreSQL: 1 of so many.
	pollShare = 20
	// scanFresh is how old a scan may be for what is believed to be relied on.
	scanFresh = 10 * scanEvery
)

// fallbackPolls is when they were last used.
type fallbackPolls struct {
	// claimed is when a claim was last made, scanned when the last scan that came to its
	// end began; both in Unix nanoseconds.
	claimed, scanned atomic.Int64
}

// pollsNeeded says whether anybody claims: where nobody does, PostgreSQL is not asked.
func (d *Dispatcher) pollsNeeded() bool {
	return d.parking.Count() > 0 || time.Since(time.Unix(0, d.polls.claimed.Load())) < 4*scanEvery
}

// scannedLately says whether what is believed can be relied on.
func (d *Dispatcher) scannedLately() bool {
	return time.Since(time.Unix(0, d.polls.scanned.Load())) < scanFresh
}

// poll looks for jobs that no wake-up told of, on behalf of all parked claims at
// once: their number costs nothing.
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
		lists, next := d.lists.Known(from, listsPerLook)
		found, err := d.store.Look(ctx, lists, pollWakes)
		if err != nil {
			if ctx.Err() == nil {
				d.log.WarnContext(ctx, "parked claims are not polled for", "error", err)
			}
			from = next // what takes too long must not keep the others out
			continue
		}
		from = next
		d.WakeHere(found)
		pause = max(pollEvery, pauseAfter(begun))
	}
}

// scan finds the lists in which jobs wait, those of which nobody has told too.
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

// scanFrom goes through all lists behind a place, slice by slice, in a twentieth of
// the time, and gives the place where an error ended it.
func (d *Dispatcher) scanFrom(ctx context.Context, after claim.ReadyList) (claim.ReadyList, error) {
	for {
		begun := time.Now()
		found, err := d.store.Scan(ctx, after, listsPerScan)
		if err != nil {
			return after, err
		}
		waiting := make([]queue.Waiting, len(found))
		for i, one := range found {
			waiting[i] = queue.Waiting{Ready: one, Jobs: 1}
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

// lookAt looks at the lists of the filter's lanes: at those that are known where the
// scan has been lately, else at all that there can be. Jobs that it finds are
// believed in from then on.
func (d *Dispatcher) lookAt(ctx context.Context, filter *scheduler.Filter) (found bool, err error) {
	lists := d.lists.OfLanes(d.lanes.Serving(filter, d.offset.Load(), lanesPerLook), !d.scannedLately(), lanesPerLook*(api.MaxPriority+1))
	for len(lists) > 0 {
		some := lists[:min(len(lists), listsPerLook)]
		lists = lists[len(some):]
		waiting, err := d.store.Look(ctx, some, 1)
		if err != nil {
			return found, err
		}
		for _, one := range waiting {
			d.lists.Notify([]queue.Ready{one.Ready})
		}
		found = found || len(waiting) > 0
	}
	return found, nil
}

// pauseAfter is for how long a net then does nothing, so that it has no more than its share
// of the time. One statement that took long says little of the next: PostgreSQL may
// have stood still.
func pauseAfter(begun time.Time) time.Duration {
	return min((pollShare-1)*time.Since(begun), scanFresh)
}

// jittered is up to a fifth shorter, so that cores do not look at the same moment.
func jittered(wait time.Duration) time.Duration {
	return wait - time.Duration(rand.Int64N(int64(wait/5))) //nolint:gosec // spreads cores, guards nothing
}
