// Package dispatch decides in memory what the queue then does in PostgreSQL: which lanes a claim
// scans, which waiting claim is woken, and a job's defaults. All state here is a hint: after a
// loss, the next refresh or poll finds the same jobs.
//
//	submit, outcome, promote, reap ──commit──▶ Wake(lanes) ──▶ a parked claim scans again
//	                                              │   ▲
//	                                 to other cores   from other cores (Redis), or a poll of
//	                                 (Redis)          the parked claims' lanes, ≤ 250 ms
package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/drain"
	"github.com/forgequeue/forgequeue/core/internal/flush"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/watch"
)

const (
	// refreshEvery is the maximum age of cached lanes and queues.
	refreshEvery = 2 * time.Second
	refreshGap   = 20 * time.Millisecond
)

// Dispatcher connects the internal API and the queue.
type Dispatcher struct {
	store  *cell.Cell
	lanes  *cache.Lanes
	maker  *laneMaker
	lists  *scheduler.ReadyLists
	limits *cache.Limits
	// maxRunning caps the leases of the whole installation; nil for no cap.
	maxRunning *int64
	parking    scheduler.Parking
	claims     *claims
	polls      fallbackPolls
	watches    watch.Watches
	flushes    *flush.Flushes
	// claimLocks serialises claims under a tenant's running cap.
	claimLocks tenantLocks
	workers    *cache.Workers
	callers    callers
	leases     cache.Leases
	served     cache.Served
	breakers   breakers
	// drains are how fast lines move, turns when callers that a full cap refused may come back.
	drains *drain.Rates
	turns  drain.Turns
	// drainAsked is when a rate was last asked for, in Unix nanoseconds.
	drainAsked atomic.Int64
	// core names this core among the others.
	core uuid.UUID
	// waits are how long new jobs are likely to wait.
	waits   waits
	metrics *metrics.Jobs
	stats   stats.Recorder
	uses    stats.LimitRecorder
	traces  flush.Traces
	log     *slog.Logger
	// publish passes wake-ups on to other cores; it never blocks.
	publish func([]jobs.Waiting)
	// publishEnded and publishSettings do the same for ended jobs and changed settings.
	publishEnded    func([]uuid.UUID)
	publishSettings func()
	// publishLeft tells other cores of a worker that left.
	publishLeft func(owner tenant.ID, workerID string)
	// scheduled is called when a job becomes scheduled.
	scheduled func()
	// scheduleChanged is called when a schedule was made or changed.
	scheduleChanged func()
	refresh         chan struct{}
	// offset counts claims; it rotates equal lists.
	offset atomic.Uint64
	// draining is closed when this core stops: parked claims then end empty, so that their workers
	// ask another core.
	draining chan struct{}
	drain    sync.Once
}

// Options are what a Dispatcher needs.
type Options struct {
	Store   *cell.Cell
	Metrics *metrics.Jobs
	Logger  *slog.Logger
	// Publish passes wake-ups on to other cores and must not block; nil for none.
	Publish func([]jobs.Waiting)
	// PublishEnded and PublishSettings do the same for ended jobs and changed settings.
	PublishEnded    func([]uuid.UUID)
	PublishSettings func()
	// PublishLeft tells other cores of a worker that left; it must not block. nil for none.
	PublishLeft func(owner tenant.ID, workerID string)
	// MaxRunning caps the leases of the whole installation; 0 for no cap.
	MaxRunning int64
	// Scheduled is called when a job becomes scheduled; nil for none.
	Scheduled func()
	// ScheduleChanged is called when a schedule was made or changed; nil for none.
	ScheduleChanged func()
	// Tracer makes spans; nil makes none.
	Tracer trace.Tracer
}

// New makes a Dispatcher; Run keeps it up to date.
func New(o Options) *Dispatcher {
	d := &Dispatcher{
		store: o.Store, lanes: cache.NewLanes(o.Store), limits: cache.NewLimits(o.Store), metrics: o.Metrics, log: o.Logger,
		publish: o.Publish, publishEnded: o.PublishEnded, publishSettings: o.PublishSettings, publishLeft: o.PublishLeft,
		scheduled: o.Scheduled, refresh: make(chan struct{}, 1),
		draining: make(chan struct{}), workers: cache.NewWorkers(o.Metrics.Workers.Registered), traces: flush.Traces{Tracer: o.Tracer},
	}
	d.maker = newLaneMaker(d.lanes, o.Store)
	d.lists = scheduler.NewReadyLists(d.lanes.ByID)
	d.drains, d.core = drain.NewRates(), uuid.New()
	o.Store.Submits.OnFull(d.room)
	o.Store.Counts.OnUse(d.countUses)
	d.claims = &claims{d: d, groups: map[string]*claimGroup{}}
	if o.MaxRunning > 0 {
		d.maxRunning = &o.MaxRunning
	}
	d.flushes = flush.New(o.Store, d.traces, d.stored, d.ended)
	if d.publish == nil {
		d.publish = func([]jobs.Waiting) {}
	}
	if d.publishEnded == nil {
		d.publishEnded = func([]uuid.UUID) {}
	}
	if d.publishSettings == nil {
		d.publishSettings = func() {}
	}
	if d.publishLeft == nil {
		d.publishLeft = func(tenant.ID, string) {}
	}
	if d.scheduled == nil {
		d.scheduled = func() {}
	}
	if d.scheduleChanged = o.ScheduleChanged; d.scheduleChanged == nil {
		d.scheduleChanged = func() {}
	}
	return d
}

// Run refreshes the caches and polls for parked claims until ctx ends.
func (d *Dispatcher) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { d.refreshLoop(ctx) })
	group.Go(func() { d.poll(ctx) })
	group.Go(func() { d.scan(ctx) })
	group.Go(func() { d.pollWatches(ctx) })
	group.Go(func() { d.reportDrain(ctx) })
	group.Wait()
	d.claims.close()
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
	err := errors.Join(d.refreshLanes(ctx), d.served.Refresh(ctx, d.store))
	d.wakeForLanes(d.lists.CapsChanged(func(lane lanes.Lane, full claim.FullCaps) bool {
		return !full.Within(d.runningCaps(lane, d.lanes.Settings(lane.Tenant, lane.Queue)))
	}))
	return err
}

// wakeForLanes wakes claims for lanes that are to be asked again, one for each.
func (d *Dispatcher) wakeForLanes(lanes []lanes.Lane) {
	if len(lanes) > 0 {
		d.wake(lanes, min(len(lanes), scheduler.MaxParked))
	}
}

// refreshLanes reads lanes and queue settings, and applies which lanes were created and deleted.
func (d *Dispatcher) refreshLanes(ctx context.Context) error {
	created, gone, err := d.lanes.Refresh(ctx)
	d.lists.Forget(gone)
	d.wakeCreated(created)
	return err
}

// NewPrimary drops what this core knows of lanes, because PostgreSQL has a new primary, which may lack
// the last of them. It asks no database.
func (d *Dispatcher) NewPrimary() {
	d.lists.Forget(d.lanes.Forget())
	d.RefreshSoon()
}

func (d *Dispatcher) refreshLoop(ctx context.Context) {
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
		// Notifications of unknown lanes must not make this a busy loop.
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

// Wake notifies parked claims, here and in other cores: one entry for each job that became ready.
func (d *Dispatcher) Wake(ready []jobs.Ready) {
	if len(ready) == 0 {
		return
	}
	waiting := gather(ready)
	d.WakeHere(waiting)
	d.publish(waiting)
}

// gather merges the entries of each list: the first of its jobs, and how many.
func gather(ready []jobs.Ready) []jobs.Waiting {
	places := map[scheduler.ListKey]int{}
	var waiting []jobs.Waiting
	for _, one := range ready {
		key := scheduler.ListKey{Lane: one.Lane, Priority: one.Priority}
		if one.At.IsZero() {
			key.Priority = min(one.Priority, 0) - 1
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

// scanAgain asks for one more scan of a lane without a new job.
func scanAgain(lane lanes.ID) jobs.Waiting {
	return jobs.Waiting{Ready: jobs.Ready{Lane: lane}, Jobs: 1}
}

// WakeHere notifies only the claims parked in this core. All lists are notified at once, before the first
// claim is woken: a claim sees all of them or none, and takes first what comes first.
func (d *Dispatcher) WakeHere(waiting []jobs.Waiting) {
	lanes := make([][]lanes.Lane, len(waiting))
	ready := make([]jobs.Ready, len(waiting))
	for i, one := range waiting {
		ready[i] = one.Ready
	}
	d.lists.Notify(ready)
	for i, one := range waiting {
		lane, known := d.lanes.ByID(one.Lane)
		if !known { // created by another core; its claims are woken once it is cached
			d.RefreshSoon()
			continue
		}
		lanes[i] = append(d.unthrottle(one.Ready, lane), lane)
	}
	for i, one := range waiting {
		d.wake(lanes[i], int(min(one.Jobs, scheduler.MaxParked)))
	}
}

// unthrottle gives throttled lanes that may have capacity now that a job of lane has ended: those
// under the same caps, and not only lane, which would keep the capacity for as long as it has jobs.
func (d *Dispatcher) unthrottle(released jobs.Ready, lane lanes.Lane) []lanes.Lane {
	if !released.At.IsZero() || released.Priority != jobs.CapacityReleased {
		return nil
	}
	// the remaining lanes are unthrottled when the next job ends
	return slices.DeleteFunc(d.lists.Released(lane, d.maxRunning != nil, listsPerClaim), func(other lanes.Lane) bool { return other.ID == lane.ID })
}

// wake wakes at most count claims that can take from the lanes, in random order.
func (d *Dispatcher) wake(lanes []lanes.Lane, count int) {
	rand.Shuffle(len(lanes), func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] }) //nolint:gosec // spreads wake-ups, guards nothing
	for _, lane := range lanes {
		count -= d.parking.Wake(lane, d.lanes.Settings(lane.Tenant, lane.Queue).Push, count)
	}
}

// wakeCreated wakes claims for lanes that are new in the cache and had notifications before.
func (d *Dispatcher) wakeCreated(lanes []lanes.Lane) {
	for _, lane := range lanes {
		if d.lists.LaneCreated(lane) {
			d.parking.Wake(lane, d.lanes.Settings(lane.Tenant, lane.Queue).Push, pollWakes)
		}
	}
}

// Flushes says how many requests wait for a flush.
func (d *Dispatcher) Flushes() metrics.Flushes { return d.flushes.Waiting() }
