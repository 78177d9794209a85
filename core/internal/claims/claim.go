package claims

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// statementTime bounds a statement whose caller has left.
const statementTime = 10 * time.Second

// Options are what Claims need.
type Options struct {
	Store  *cell.Cell
	Cached *cache.Memory
	Lists  *scheduler.ReadyLists
	// Times are how long attempts run; nil where shares are of jobs.
	Times     *scheduler.RunTimes
	Parking   *scheduler.Parking
	Publisher *publish.Publisher
	Metrics   *metrics.Jobs
	Traces    publish.Traces
	Logger    *slog.Logger
	// Drained ends every wait for work when it is closed.
	Drained <-chan struct{}
}

// Claims are the claims of this core, and what becomes of the leases.
type Claims struct {
	*Workers
	*Outcomes
	*Polls

	combined  *combiner
	parking   *scheduler.Parking
	cached    *cache.Memory
	store     *cell.Cell
	publisher *publish.Publisher
	metrics   *metrics.Jobs
	drained   <-chan struct{}
}

// New makes them; Run polls for them.
func New(o Options) *Claims {
	planner := &planner{cached: o.Cached, lists: o.Lists, times: o.Times}
	polls := &Polls{store: o.Store, planner: planner, parking: o.Parking, publisher: o.Publisher, log: o.Logger}
	outcomes := newOutcomes(o.Store, o.Publisher, o.Traces, o.Logger)
	return &Claims{
		Polls: polls, Outcomes: outcomes,
		Workers: &Workers{
			store: o.Store, cached: o.Cached, outcomes: outcomes, publisher: o.Publisher, metrics: o.Metrics.Workers,
			known: cache.NewWorkers(o.Metrics.Workers.Registered),
		},
		combined: &combiner{
			leaser:   &leaser{store: o.Store, planner: planner, polls: polls, publisher: o.Publisher, log: o.Logger},
			outcomes: outcomes, publisher: o.Publisher, traces: o.Traces, groups: map[string]*claimGroup{},
		},
		parking: o.Parking, cached: o.Cached, store: o.Store, publisher: o.Publisher, metrics: o.Metrics, drained: o.Drained,
	}
}

// Run polls until ctx ends, and then waits for jobs that are being given back.
func (c *Claims) Run(ctx context.Context) {
	c.run(ctx)
	c.combined.close()
}

// Call is a worker's request for jobs.
type Call struct {
	// Owner is the worker's tenant, or tenant.Platform.
	Owner    tenant.ID
	WorkerID string
	Queues   []string
	// Types are those of the jobs that it takes; nil for all types.
	Types []string
	// Tags are the worker's; nil takes those that it registered with.
	Tags *[]string
	Max  int
	// Wait is how long to wait for the first job.
	Wait time.Duration
	// Push claims from the queues in push mode, of any tenants, for core's own executor: WorkerID
	// is then not in the workers table. For Capacity, see Filter.Capacity. A value on CapacityReleased makes a
	// waiting claim scan again: capacity may have been released.
	Push             bool
	Capacity         func() scheduler.Capacity
	CapacityReleased <-chan struct{}
}

// Claim leases up to Max jobs to a worker. Without ready jobs it waits, without a connection, until
// work arrives or Wait is over; an empty answer is no error. Jobs leased for a caller that has left
// are returned at once, attempt included; those leased for a worker that leaves meanwhile, too.
func (c *Claims) Claim(ctx context.Context, call Call) ([]claim.Job, error) {
	filter := &scheduler.Filter{Owner: call.Owner, Queues: call.Queues, Types: scheduler.Set(call.Types), Push: call.Push, Capacity: call.Capacity}
	if call.Push {
		return c.takeOrWait(ctx, call, filter, nil)
	}
	key := cache.WorkerKey{Owner: call.Owner, ID: call.WorkerID}
	left, done := c.callers.enter(key)
	defer done()
	tags, err := c.known.Seen(ctx, c.store, key, call.Queues, call.Types, call.Tags)
	if isClosed(left) { // it left meanwhile, and this claim may have made its row again
		return nil, c.removeAgain(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	filter.Tags = tags
	if call.Wait > 0 { // a claim without wait does not serve the queue
		c.cached.Served.Seen(call.Owner, call.Queues, call.Types)
	}
	jobs, err := c.takeOrWait(ctx, call, filter, left)
	if len(jobs) > 0 && isClosed(left) { // leased after its leases were given back
		c.GiveBack(ctx, jobs)
		return nil, nil
	}
	return jobs, err
}

// takeOrWait scans, and where it finds nothing waits until work arrives, Wait is over, or the worker
// has left.
func (c *Claims) takeOrWait(ctx context.Context, call Call, filter *scheduler.Filter, left <-chan struct{}) ([]claim.Job, error) {
	c.claimed.Store(time.Now().UnixNano())
	if call.Wait <= 0 {
		return c.take(ctx, call, filter, true)
	}
	over := time.NewTimer(call.Wait)
	defer over.Stop()
	moved, done := c.callers.enter(allOf(call.Owner))
	defer done()
	w := c.parking.Park(filter)
	c.metrics.Parked.Inc()
	defer c.metrics.Parked.Dec()
	// Wake-ups that this claim did not use go to other claims for those jobs.
	var unused []jobs.Waiting
	defer func() {
		if lane, pending := c.parking.Leave(w); pending {
			unused = append(unused, scanAgain(lane))
		}
		c.publisher.WakeHere(unused)
	}()
	var wokenFor lanes.ID // 0: none yet
	for {
		jobs, err := c.take(ctx, call, filter, false)
		if len(jobs) > 0 || err != nil {
			// It may have taken other jobs than the one it was woken for, or have left. Where the
			// database failed, no other claim is woken: the fallback poll finds the job.
			if wokenFor != 0 && (err == nil || ctx.Err() != nil) && !takenFrom(wokenFor, jobs) {
				unused = append(unused, scanAgain(wokenFor))
			}
			return jobs, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-over.C:
			return nil, nil
		case <-c.drained:
			return nil, nil
		case <-moved:
			return nil, nil
		case <-left:
			return nil, nil
		case wokenFor = <-w.Woken:
			c.parking.Rearm(w)
		case <-call.CapacityReleased:
		}
	}
}

// take scans once, in one statement with other claims from the same lanes.
func (c *Claims) take(ctx context.Context, call Call, filter *scheduler.Filter, probe bool) ([]claim.Job, error) {
	return c.combined.take(ctx, filter, claim.Worker{ID: call.WorkerID, Max: call.Max}, probe || !c.scannedLately())
}

func takenFrom(lane lanes.ID, jobs []claim.Job) bool {
	return slices.ContainsFunc(jobs, func(one claim.Job) bool { return one.LaneID == lane })
}

// scanAgain asks for one more scan of a lane without a new job.
func scanAgain(lane lanes.ID) jobs.Waiting {
	return jobs.Waiting{Ready: jobs.Ready{Lane: lane}, Jobs: 1}
}
