// Package dispatch decides in memory what the queue then does in PostgreSQL:
// which lanes a claim may take from, who waits for work and who is woken, what a
// job gets where it says nothing. Everything here is a hint: lose it, and the
// next refresh or poll finds the same jobs.
//
//	submit, outcome, promote, reap ──commit──▶ Wake(lanes) ──▶ a parked claim looks again
//	                                              │   ▲
//	                                 to other cores   from other cores (Redis), or a poll of
//	                                 (Redis)          the parked claims' lanes, ≤ 250 ms
package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/queue"
)

const (
	// pollEvery is how long a wake-up that got lost costs at most.
	pollEvery = 250 * time.Millisecond
	// refreshEvery is how old what is known of lanes and queues may get.
	refreshEvery = 2 * time.Second
	refreshGap   = 20 * time.Millisecond
	// pollWakes is how many claims one ready lane wakes in one poll.
	pollWakes = 8
)

// Dispatcher stands between the internal API and the queue.
type Dispatcher struct {
	store  *queue.Store
	lanes  *Lanes
	limits *Limits
	// maxRunning caps the leases of the whole installation; nil for no cap.
	maxRunning *int64
	parking    parking
	watches    watches
	flushes    *flushes
	// claimGate lets one claim under a tenant's running cap through at a time.
	claimGate gate
	workers   workers
	served    served
	breakers  breakers
	metrics   *metrics.Jobs
	log       *slog.Logger
	// tell passes wake-ups on to other cores; it never blocks.
	tell func([]queue.LaneID)
	// tellEnded and tellSettings do the same for jobs that ended and for settings
	// that changed.
	tellEnded    func([]uuid.UUID)
	tellSettings func()
	// scheduled is kicked when a job starts to wait for its time.
	scheduled func()
	refresh   chan struct{}
	turn      turn
	// draining is closed when this core stops: parked claims then end empty, so
	// that their workers ask another core.
	draining chan struct{}
	drain    sync.Once
}

// Options are what a Dispatcher needs.
type Options struct {
	Store   *queue.Store
	Metrics *metrics.Jobs
	Logger  *slog.Logger
	// Tell passes wake-ups on to other cores and must not block; nil for none.
	Tell func([]queue.LaneID)
	// TellEnded and TellSettings do the same for jobs that ended and for settings
	// that changed.
	TellEnded    func([]uuid.UUID)
	TellSettings func()
	// MaxRunning caps the leases of the whole installation; 0 for no cap.
	MaxRunning int64
	// Scheduled is called when a job starts to wait for its time; nil for none.
	Scheduled func()
}

// New makes a Dispatcher; Run keeps it up to date.
func New(o Options) *Dispatcher {
	d := &Dispatcher{
		store: o.Store, lanes: newLanes(o.Store), limits: newLimits(o.Store), metrics: o.Metrics, log: o.Logger,
		tell: o.Tell, tellEnded: o.TellEnded, tellSettings: o.TellSettings, scheduled: o.Scheduled, refresh: make(chan struct{}, 1),
		draining: make(chan struct{}),
	}
	if o.MaxRunning > 0 {
		d.maxRunning = &o.MaxRunning
	}
	d.flushes = newFlushes(o.Store, d.stored, d.ended)
	if d.tell == nil {
		d.tell = func([]queue.LaneID) {}
	}
	if d.tellEnded == nil {
		d.tellEnded = func([]uuid.UUID) {}
	}
	if d.tellSettings == nil {
		d.tellSettings = func() {}
	}
	if d.scheduled == nil {
		d.scheduled = func() {}
	}
	return d
}

// Run refreshes what is known of lanes and polls for parked claims until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { d.keepFresh(ctx) })
	group.Go(func() { d.poll(ctx) })
	group.Wait()
	return nil
}

// Drain ends every wait for work, now and from now on.
func (d *Dispatcher) Drain() { d.drain.Do(func() { close(d.draining) }) }

// Refresh reads lanes, queue settings and limits now.
func (d *Dispatcher) Refresh(ctx context.Context) error {
	// limits first: a lane is not known before its tenant's are
	if err := d.limits.Refresh(ctx); err != nil {
		return err
	}
	return errors.Join(d.lanes.Refresh(ctx), d.served.refresh(ctx, d.store))
}

func (d *Dispatcher) keepFresh(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-d.refresh:
		}
		if err := d.Refresh(ctx); err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "lanes and limits are not refreshed", "error", err)
		}
		// Hints of lanes that are not ours, another installation's on the same Redis,
		// must not make this a busy loop.
		select {
		case <-ctx.Done():
			return
		case <-time.After(refreshGap):
		}
		timer.Reset(refreshEvery)
	}
}

// RefreshSoon asks for a refresh; asking twice is asking once.
func (d *Dispatcher) RefreshSoon() {
	select {
	case d.refresh <- struct{}{}:
	default:
	}
}

// poll looks for jobs that no wake-up told of, on behalf of all parked claims at
// once: their number costs nothing.
func (d *Dispatcher) poll(ctx context.Context) {
	for {
		wait := pollEvery - time.Duration(rand.Int64N(int64(pollEvery/5))) //nolint:gosec // spreads cores, guards nothing
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		d.pollWatches(ctx)
		lanes := d.wanted()
		ready, err := d.store.ReadyLanes(ctx, lanes)
		if err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "parked claims are not polled for", "error", err)
		}
		for _, id := range ready {
			if lane, known := d.lanes.ByID(id); known {
				d.parking.wake(lane, d.lanes.Settings(lane.Tenant, lane.Queue).Push, pollWakes)
			}
		}
	}
}

// wanted lists the lanes that parked claims could take from, each once.
func (d *Dispatcher) wanted() []queue.LaneID {
	seen := map[queue.LaneID]bool{}
	var wanted []queue.LaneID
	for _, filter := range d.parking.filters() {
		for _, lane := range d.lanes.Claimable(filter, nil) {
			if !seen[lane.ID] {
				seen[lane.ID] = true
				wanted = append(wanted, lane.ID)
			}
		}
	}
	return wanted
}

// Wake tells parked claims, here and in other cores, that there is work: one
// entry for each job that became ready.
func (d *Dispatcher) Wake(lanes []queue.LaneID) {
	if len(lanes) == 0 {
		return
	}
	d.WakeHere(lanes)
	d.tell(lanes)
}

// WakeHere tells the claims parked in this core only.
func (d *Dispatcher) WakeHere(lanes []queue.LaneID) {
	counts := map[queue.LaneID]int{}
	for _, id := range lanes {
		counts[id]++
	}
	for id, count := range counts {
		lane, known := d.lanes.ByID(id)
		if !known { // born in another core
			d.RefreshSoon()
			continue
		}
		d.parking.wake(lane, d.lanes.Settings(lane.Tenant, lane.Queue).Push, count)
	}
}
