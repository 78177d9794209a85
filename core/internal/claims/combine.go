package claims

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/pace"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/server/batch"
)

// combiner combines claims that wait at the same time for the same lanes: one plan and its statements
// for all of them.
type combiner struct {
	leaser    *leaser
	outcomes  *Outcomes
	publisher *publish.Publisher
	traces    publish.Traces

	mu     sync.Mutex
	groups map[string]*claimGroup
	// returning are jobs being returned from callers that have left; after close they are returned
	// synchronously.
	returning sync.WaitGroup
	closed    bool
}

type claimGroup struct {
	*batch.Batcher[*claimRequest, []claim.Job]
	// drr and density are used by one flush at a time.
	drr     scheduler.DRR
	density listDensity
	users   int
}

// rememberedGroups bounds the groups without users: they hold which tenants were served last.
const rememberedGroups = 1000

// claimRequest is one caller's part. Its jobs are either delivered, or returned because it has
// left: always exactly one of both.
type claimRequest struct {
	filter *scheduler.Filter
	worker claim.Worker
	// probe says to probe the tables where no ready list is known.
	probe bool
	// span is the caller's, zero for none.
	span trace.SpanContext

	mu        sync.Mutex
	left      bool
	delivered []claim.Job
}

// deliver gives the jobs to the caller; false if it has left.
func (r *claimRequest) deliver(jobs []claim.Job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delivered = jobs
	return !r.left
}

// leave marks the caller as left and gives what was delivered before.
func (r *claimRequest) leave() []claim.Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
	return r.delivered
}

func (r *claimRequest) hasLeft() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

// errNotReached says that earlier claims took all the bytes of a flush.
var errNotReached = errors.New("claims: the flush ended before this claim")

// take joins the next flush for the filter's lanes, and later ones until it is reached.
func (c *combiner) take(ctx context.Context, filter *scheduler.Filter, worker claim.Worker, probe bool) (jobs []claim.Job, err error) {
	group, unuse := c.enter(filter.Key())
	defer unuse()
	var request *claimRequest
	for again := true; again; again = errors.Is(err, errNotReached) {
		request = &claimRequest{filter: filter, worker: worker, probe: probe, span: c.traces.RequestSpan(ctx)}
		jobs, err = group.Do(ctx, request)
	}
	switch {
	case errors.Is(err, batch.ErrLeft), errors.Is(err, batch.ErrUnknown):
		c.outcomes.GiveBack(ctx, request.leave())
		return nil, context.Cause(ctx)
	case errors.Is(err, batch.ErrFull):
		return nil, fmt.Errorf("%w: too many claims wait", store.ErrOverloaded)
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		c.outcomes.GiveBack(ctx, jobs)
		return nil, context.Cause(ctx)
	}
	return jobs, nil
}

func (c *combiner) enter(key string) (group *claimGroup, unuse func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if group = c.groups[key]; group == nil {
		if len(c.groups) >= rememberedGroups {
			maps.DeleteFunc(c.groups, func(_ string, g *claimGroup) bool { return g.users == 0 })
		}
		group = &claimGroup{}
		group.Batcher = batch.New(batch.Options[*claimRequest, []claim.Job]{
			MaxWeight: pace.FlushJobs, Capacity: pace.FlushWaiting, Timeout: pace.FlushTimeout,
			Weight: func(r *claimRequest) int { return r.worker.Max },
			Flush: func(ctx context.Context, requests []*claimRequest) []batch.Result[[]claim.Job] {
				return c.flush(ctx, group, requests)
			},
		})
		c.groups[key] = group
	}
	group.users++
	return group, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		group.users--
	}
}

// flush leases for all of the requests at once and divides the jobs, in order of arrival.
func (c *combiner) flush(ctx context.Context, group *claimGroup, requests []*claimRequest) []batch.Result[[]claim.Job] {
	ctx, span := c.traces.Flush(ctx, "claims", len(requests), func(i int) trace.SpanContext { return requests[i].span })
	defer span.End()
	results := make([]batch.Result[[]claim.Job], len(requests))
	leasing := &leasing{leaser: c.leaser, drr: &group.drr, density: &group.density, filter: requests[0].filter, busy: map[tenant.ID]bool{}}
	probe := false
	for _, r := range requests {
		worker := r.worker
		if r.hasLeft() {
			worker.Max = 0
		}
		leasing.workers = append(leasing.workers, worker)
		probe = probe || r.probe
	}
	c.leaser.lease(ctx, leasing, probe)
	jobs := leasing.jobs
	c.claimed(ctx, jobs)
	var back []claim.Job
	for i, r := range requests {
		n := min(leasing.workers[i].Max, len(jobs))
		if results[i].Value = jobs[:n:n]; n == 0 {
			results[i].Err = leasing.err
			if leasing.full && leasing.err == nil && leasing.workers[i].Max > 0 {
				results[i].Err = errNotReached
			}
		}
		if !r.deliver(jobs[:n:n]) {
			back = append(back, jobs[:n]...)
		}
		jobs = jobs[n:]
	}
	c.giveBack(ctx, back)
	return results
}

// giveBack returns jobs asynchronously, without delaying the other callers.
func (c *combiner) giveBack(ctx context.Context, jobs []claim.Job) {
	if len(jobs) == 0 {
		return
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.returning.Go(func() { c.outcomes.GiveBack(ctx, jobs) })
	}
	c.mu.Unlock()
	if closed {
		c.outcomes.GiveBack(ctx, jobs)
	}
}

// close waits for jobs that are being returned.
func (c *combiner) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.returning.Wait()
}

// claimed publishes leased jobs.
func (c *combiner) claimed(ctx context.Context, jobs []claim.Job) {
	if len(jobs) > 0 {
		c.publisher.Publish(ctx, publish.Changes{Claimed: jobs})
	}
}
