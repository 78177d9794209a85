package publish

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// refreshEvery is the maximum age of cached lanes and queues, refreshSeldom that while the hints of other cores arrive:
	// each change of settings is one.
	refreshEvery  = 2 * time.Second
	refreshSeldom = 5 * time.Second
	refreshGap    = 20 * time.Millisecond
	// refreshCheck is how often is looked whether hints still arrive.
	refreshCheck = time.Second
	// listsPerWake bounds the lanes that the capacity of one job wakes.
	listsPerWake = 50
	// wakesPerLane is how many claims a lane with ready jobs wakes, where it is not known how many it has.
	wakesPerLane = 8
)

// Waker wakes parked claims, and keeps what they are planned by up to date.
type Waker struct {
	cached  *cache.Memory
	lists   *scheduler.ReadyLists
	parking *scheduler.Parking
	// hint passes wake-ups on to other cores.
	hint func([]jobs.Waiting)
	// arrive says whether theirs are likely to arrive here.
	arrive  func() bool
	refresh Kick
	log     *slog.Logger
	// woken is the last wake-up of jobs that became ready, in Unix nanoseconds.
	woken atomic.Int64
}

// Wake notifies parked claims, here and in other cores: one entry for each job that became ready.
func (w *Waker) Wake(ready []jobs.Ready) {
	if len(ready) == 0 {
		return
	}
	waiting := gather(ready)
	w.WakeHere(waiting)
	w.hint(waiting)
}

// gather merges the entries of each list: the first of its jobs, and how many.
func gather(ready []jobs.Ready) []jobs.Waiting {
	places := map[scheduler.ListKey]int{}
	var waiting []jobs.Waiting
	for _, one := range ready {
		key := scheduler.ListKey{Lane: one.Lane, Priority: one.Priority}
		switch { // no list's priority
		case one.CapacityReleased:
			key.Priority = -2
		case one.At.IsZero():
			key.Priority = -1
		}
		place, known := places[key]
		if !known {
			places[key] = len(waiting)
			waiting = append(waiting, jobs.Waiting{Ready: one, Jobs: 1})
			continue
		}
		waiting[place].Jobs++
		if one.Cursor().Compare(waiting[place].Cursor()) < 0 {
			waiting[place].Ready = one
		}
	}
	return waiting
}

// WakeHere notifies only the claims parked in this core. All lists are notified at once, before the first
// claim is woken: a claim sees all of them or none, and takes first what comes first.
func (w *Waker) WakeHere(waiting []jobs.Waiting) {
	if len(waiting) == 0 {
		return
	}
	w.woken.Store(time.Now().UnixNano())
	lanes := make([][]lanes.Lane, len(waiting))
	ready := make([]jobs.Ready, len(waiting))
	for i, one := range waiting {
		ready[i] = one.Ready
	}
	w.lists.Notify(ready)
	for i, one := range waiting {
		lane, known := w.cached.Lanes.ByID(one.Lane)
		if !known { // created by another core; its claims are woken once it is cached
			w.RefreshSoon()
			continue
		}
		lanes[i] = append(w.unthrottle(one.Ready, lane), lane)
	}
	for i, one := range waiting {
		w.wake(lanes[i], int(min(one.Jobs, scheduler.MaxParked)))
	}
}

// WokenWithin says whether jobs became ready within a time, as far as this core knows.
func (w *Waker) WokenWithin(span time.Duration) bool {
	return time.Since(time.Unix(0, w.woken.Load())) < span
}

// HintsArrive says whether the hints of other cores are likely to arrive here. A hint may be lost all the same.
func (w *Waker) HintsArrive() bool { return w.arrive() }

// unthrottle gives throttled lanes that may have capacity now that a job of lane has ended: those
// under the same caps, and not only lane, which would keep the capacity for as long as it has jobs.
func (w *Waker) unthrottle(released jobs.Ready, lane lanes.Lane) []lanes.Lane {
	if !released.CapacityReleased {
		return nil
	}
	// the remaining lanes are unthrottled when the next job ends
	return slices.DeleteFunc(w.lists.Released(lane, w.cached.CapsAll(), listsPerWake), func(other lanes.Lane) bool { return other.ID == lane.ID })
}

// wake wakes at most count claims that can take from the lanes, in random order.
func (w *Waker) wake(lanes []lanes.Lane, count int) {
	rand.Shuffle(len(lanes), func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] }) //nolint:gosec // spreads wake-ups, guards nothing
	for _, lane := range lanes {
		count -= w.parking.Wake(lane, w.cached.Lanes.Settings(lane.Tenant, lane.Queue).Push, count)
	}
}

// wakeCreated wakes claims for lanes that are new in the cache and had notifications before.
func (w *Waker) wakeCreated(lanes []lanes.Lane) {
	for _, lane := range lanes {
		if w.lists.LaneCreated(lane) {
			w.parking.Wake(lane, w.cached.Lanes.Settings(lane.Tenant, lane.Queue).Push, wakesPerLane)
		}
	}
}

// released appends that a job of a lane no longer runs, if it was under a cap.
func (w *Waker) released(ready []jobs.Ready, id lanes.ID) []jobs.Ready {
	if lane, known := w.cached.Lanes.ByID(id); known && w.cached.IsCapped(lane) {
		ready = append(ready, jobs.Ready{Lane: lane.ID, CapacityReleased: true})
	}
	return ready
}

// WakeQueue wakes claims for a queue that was just resumed: its jobs became ready before, and no
// other notification comes.
func (w *Waker) WakeQueue(key tenant.QueueKey) {
	var ready []jobs.Ready
	for _, lane := range w.cached.Lanes.Of(key) {
		for range wakesPerLane {
			ready = append(ready, jobs.Ready{Lane: lane.ID})
		}
	}
	w.Wake(ready)
}
