package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/flush"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/batch"
)

// claims makes one of the claims that wait at one moment for the same lanes: one
// plan and its statements for all of them, whose jobs are dealt out.
type claims struct {
	d *Dispatcher

	mu     sync.Mutex
	groups map[string]*claimGroup
	// giving are jobs on their way back from callers that have left; once it is closed
	// they are given back at once.
	giving sync.WaitGroup
	closed bool
}

type claimGroup struct {
	*batch.Batcher[*claimRequest, []claim.Job]
	// dealer is of the one flush under way.
	dealer scheduler.DRR
	users  int
}

// rememberedGroups bounds the groups that nobody uses: what they remember is who was
// served last.
const rememberedGroups = 1000

// claimRequest is one caller's part. Jobs are either delivered to it, or it has left
// before: never both, and never neither.
type claimRequest struct {
	filter *scheduler.Filter
	worker claim.Worker
	// look says to look at the tables where nothing is believed to be there.
	look bool
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

// leave gives what was delivered to a caller that did not take it.
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

// errNotReached says that the claims before this one took all the bytes of a flush.
var errNotReached = errors.New("dispatch: the flush ended before this claim")

// take joins the next statements for the filter's lanes, and those after them where it
// was not reached.
func (c *claims) take(ctx context.Context, filter *scheduler.Filter, worker claim.Worker, look bool) (jobs []claim.Job, err error) {
	group, unuse := c.enter(filter.Key())
	defer unuse()
	var request *claimRequest
	for again := true; again; again = errors.Is(err, errNotReached) {
		request = &claimRequest{filter: filter, worker: worker, look: look, span: c.d.traces.Asker(ctx)}
		jobs, err = group.Do(ctx, request)
	}
	switch {
	case errors.Is(err, batch.ErrLeft), errors.Is(err, batch.ErrUnknown):
		c.d.GiveBack(ctx, request.leave())
		return nil, context.Cause(ctx)
	case errors.Is(err, batch.ErrFull):
		return nil, fmt.Errorf("%w: too many claims wait", store.ErrOverloaded)
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		c.d.GiveBack(ctx, jobs)
		return nil, context.Cause(ctx)
	}
	return jobs, nil
}

func (c *claims) enter(key string) (group *claimGroup, unuse func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if group = c.groups[key]; group == nil {
		if len(c.groups) >= rememberedGroups {
			maps.DeleteFunc(c.groups, func(_ string, g *claimGroup) bool { return g.users == 0 })
		}
		group = &claimGroup{}
		group.Batcher = batch.New(batch.Options[*claimRequest, []claim.Job]{
			MaxWeight: flush.MaxJobs, Capacity: flush.MaxWaiting, Timeout: flush.Timeout,
			Weight: func(r *claimRequest) int { return r.worker.Max },
			Flush: func(ctx context.Context, requests []*claimRequest) []batch.Result[[]claim.Job] {
				return c.flush(ctx, &group.dealer, requests)
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

// flush leases for all of the requests at once and deals out, the first one first.
func (c *claims) flush(ctx context.Context, dealer *scheduler.DRR, requests []*claimRequest) []batch.Result[[]claim.Job] {
	ctx, span := c.d.traces.Flush(ctx, "claims", len(requests), func(i int) trace.SpanContext { return requests[i].span })
	defer span.End()
	results := make([]batch.Result[[]claim.Job], len(requests))
	leasing := &leasing{d: c.d, dealer: dealer, filter: requests[0].filter, busy: map[tenant.ID]bool{}}
	look := false
	for _, r := range requests {
		worker := r.worker
		if r.hasLeft() {
			worker.Max = 0
		}
		leasing.workers = append(leasing.workers, worker)
		look = look || r.look
	}
	c.d.lease(ctx, leasing, look)
	jobs := leasing.jobs
	c.d.claimed(jobs)
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

// giveBack returns jobs while those who have stayed work on theirs already.
func (c *claims) giveBack(ctx context.Context, jobs []claim.Job) {
	if len(jobs) == 0 {
		return
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.giving.Go(func() { c.d.GiveBack(ctx, jobs) })
	}
	c.mu.Unlock()
	if closed {
		c.d.GiveBack(ctx, jobs)
	}
}

// close waits for what is on its way back.
func (c *claims) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.giving.Wait()
}

// lease runs a claim; where nothing is believed to be there it may look first.
func (d *Dispatcher) lease(ctx context.Context, claim *leasing, look bool) {
	if claim.run(ctx); claim.err != nil || len(claim.jobs) > 0 || !look {
		return
	}
	var found bool
	if found, claim.err = d.lookAt(ctx, claim.filter); found && claim.err == nil {
		claim.run(ctx)
	}
}

// claimed counts what was leased and tells who watches these jobs.
func (d *Dispatcher) claimed(jobs []claim.Job) {
	for i := range jobs {
		d.Changed(jobs[i].ID)
		d.metrics.QueueWait.Observe(jobs[i].StartedAt.Sub(jobs[i].ReadyAt).Seconds())
	}
	d.metrics.Claimed.Add(float64(len(jobs)))
}
