package claims

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/pace"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// Three fallback polls follow the wake-ups, each slower and more complete:
//
//   - a claim without wait probes the lists of its lanes where none is known to be ready;
//   - the lookback poll, four times a second while jobs become ready, probes the known lists
//     from a second before each cursor: jobs of which no notification came, and those that were
//     committed after a claim had passed them;
//   - the scan goes once a second from list to list through the whole ready index: it finds
//     unknown lists too. Under an old snapshot it is expensive; it takes at most a twentieth
//     of a connection's time and is then later. Where the hints of other cores arrive, and no
//     job became ready lately or waits, it goes each 5 s: it is for jobs of cores that died
//     between a commit and its hint.
const (
	// pollEvery is the maximum delay by a lost wake-up, while others come.
	pollEvery = 250 * time.Millisecond
	// quietAfter is for how long no job has become ready where the scan alone looks for jobs.
	quietAfter = 4 * scanEvery
	// pollWakes is how many claims one ready list wakes in one poll.
	pollWakes = 8
	// listsPerProbe and listsPerScan bound one statement.
	listsPerProbe = 2000
	listsPerScan  = 500
	// lanesPerProbe bounds the lanes that a claim probes: more than a tenant has. A claim of the
	// platform probes others the next time.
	lanesPerProbe = 2500
	scanEvery     = time.Second
	// scanSeldom is the maximum time between two scans where nothing waits and hints arrive.
	scanSeldom = 5 * time.Second
	// scanFresh is the maximum age of a scan for the ready lists to be relied on.
	scanFresh = 10 * scanEvery
)

// Polls find jobs of which no wake-up came.
type Polls struct {
	store     *cell.Cell
	planner   *planner
	parking   *scheduler.Parking
	publisher *publish.Publisher
	log       *slog.Logger
	// claimed is the last claim, scanned the start of the last complete scan; both in Unix
	// nanoseconds.
	claimed, scanned atomic.Int64
	// waiting: the last scan failed, or found jobs that wait.
	waiting atomic.Bool
}

// run polls until ctx ends.
func (p *Polls) run(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() { p.poll(ctx) })
	group.Go(func() { p.scan(ctx) })
	group.Wait()
}

// pollsNeeded says whether there are claims: without them PostgreSQL is not polled.
func (p *Polls) pollsNeeded() bool {
	return p.parking.Count() > 0 || time.Since(time.Unix(0, p.claimed.Load())) < 4*scanEvery
}

// scannedLately says whether the ready lists can be relied on.
func (p *Polls) scannedLately() bool {
	return time.Since(time.Unix(0, p.scanned.Load())) < scanFresh
}

// poll finds jobs whose wake-up was lost, for all parked claims at once: its cost does not depend
// on their number.
func (p *Polls) poll(ctx context.Context) {
	var from scheduler.ListKey
	pause := pollEvery
	for {
		if wait.For(ctx, pace.Jittered(pause)) != nil {
			return
		}
		pause = pollEvery
		if !p.pollsNeeded() {
			continue
		}
		begun := time.Now()
		p.publisher.WakeForLanes(p.planner.lists.Retry(tenant.Platform, begun))
		if !p.publisher.WokenWithin(quietAfter) {
			continue
		}
		lists, next := p.planner.lists.Known(from, listsPerProbe)
		found, err := p.store.Claims.Probe(ctx, p.planner.lists.WithoutCapped(lists), pollWakes)
		if err != nil {
			if ctx.Err() == nil {
				p.log.WarnContext(ctx, "parked claims are not polled for", "error", err)
			}
			from = next // a list that takes too long must not starve the others
			continue
		}
		from = next
		p.publisher.WakeHere(found)
		pause = max(pollEvery, pace.After(begun))
	}
}

// scanDue says whether it is time to scan. It is asked each scanEvery.
func (p *Polls) scanDue() bool {
	scanned := p.scanned.Load()
	if scanned == 0 {
		return true
	}
	seldom := p.publisher.HintsArrive() && !p.waiting.Load() && !p.publisher.WokenWithin(quietAfter)
	return p.pollsNeeded() && (!seldom || time.Since(time.Unix(0, scanned)) >= scanSeldom-scanEvery)
}

// scan finds the lists in which jobs wait, also those without notifications.
func (p *Polls) scan(ctx context.Context) {
	var place claim.ReadyList // where an error ended the last one
	begun := time.Now()
	for {
		if p.scanDue() {
			if place == (claim.ReadyList{}) {
				begun = time.Now()
				p.waiting.Store(false)
			}
			var err error
			if place, err = p.scanFrom(ctx, place); err == nil {
				p.scanned.Store(begun.UnixNano())
			} else if ctx.Err() == nil {
				p.log.WarnContext(ctx, "the ready index is not scanned", "error", err)
			}
		}
		if wait.For(ctx, pace.Jittered(scanEvery)) != nil {
			return
		}
	}
}

// scanFrom scans all lists after a place, batch by batch, in a twentieth of the time, and gives the
// place where an error ended it.
func (p *Polls) scanFrom(ctx context.Context, after claim.ReadyList) (claim.ReadyList, error) {
	for {
		begun := time.Now()
		found, err := p.store.Claims.Scan(ctx, after, listsPerScan)
		if err != nil || len(found) > 0 {
			p.waiting.Store(true)
		}
		if err != nil {
			return after, err
		}
		waiting := make([]jobs.Waiting, 0, len(found))
		for _, one := range found {
			if !one.At.IsZero() && !p.planner.lists.IsCapped(one.Lane) {
				waiting = append(waiting, jobs.Waiting{Ready: one, Jobs: 1})
			}
		}
		p.publisher.WakeHere(waiting)
		if len(found) < listsPerScan {
			_ = wait.For(ctx, pace.After(begun)-scanEvery)
			return claim.ReadyList{}, nil
		}
		last := found[len(found)-1]
		after = claim.ReadyList{Lane: last.Lane, Priority: last.Priority}
		if err := wait.For(ctx, pace.After(begun)); err != nil {
			return after, err
		}
	}
}

// probe probes the lists of the filter's lanes: the known ones after a recent scan, otherwise all
// possible ones. Lists with jobs become ready.
func (p *Polls) probe(ctx context.Context, filter *scheduler.Filter) (found bool, err error) {
	serving := p.planner.cached.Lanes.Serving(filter, p.planner.offset.Load(), lanesPerProbe)
	lists := p.planner.lists.OfLanes(serving, !p.scannedLately(), lanesPerProbe*(api.MaxPriority+1))
	found = len(p.planner.lists.Retry(filter.Owner, time.Now())) > 0
	for len(lists) > 0 {
		some := lists[:min(len(lists), listsPerProbe)]
		lists = lists[len(some):]
		waiting, err := p.store.Claims.Probe(ctx, some, 1)
		if err != nil {
			return found, err
		}
		for _, one := range waiting {
			p.planner.lists.Notify([]jobs.Ready{one.Ready})
		}
		found = found || len(waiting) > 0
	}
	return found, nil
}
