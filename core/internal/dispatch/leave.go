package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/flush"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// leaveTime bounds a goodbye: it goes on when its caller has gone, who may be ending.
	leaveTime = 20 * time.Second
	// leaveBatch is how many leases one statement lists, and one flush ends.
	leaveBatch = flush.MaxJobs
)

// Leave removes a worker and gives its leases back at once, attempt included. A repeat, and an
// unknown worker, are no error: the repeat gives back what the first call did not.
//
// The worker's claims under way end empty, in this core before its leases are listed: a claim's lease
// is either committed by then, and listed, or given back by the claim itself. Other cores are told by
// a hint. A claim there that commits before the hint arrives keeps its lease until it runs out, as
// does any claim if the hint is lost.
func (d *Dispatcher) Leave(ctx context.Context, owner tenant.ID, workerID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	key := cache.WorkerKey{Owner: owner, ID: workerID}
	d.callers.leave(key)
	removed, err := d.remove(ctx, key)
	if err != nil {
		return err
	}
	if removed.Known {
		d.metrics.Workers.Left.Inc()
	}
	d.publishLeft(owner, workerID)
	for {
		leases, err := d.store.JobReads.HeldBy(ctx, owner, workerID, removed.At, leaveBatch)
		if err != nil {
			return err
		}
		if err := d.release(ctx, leases); err != nil {
			return err
		}
		if len(leases) < leaveBatch {
			return nil
		}
	}
}

// remove deletes the worker's row, and then what is cached of it.
func (d *Dispatcher) remove(ctx context.Context, key cache.WorkerKey) (workers.Removed, error) {
	removed, err := d.store.Workers.Remove(ctx, key.Owner, key.ID)
	d.workers.Forget(key)
	return removed, err
}

// removeAgain is remove for a claim of a worker that has left, even when ctx has ended.
func (d *Dispatcher) removeAgain(ctx context.Context, key cache.WorkerKey) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTime)
	defer cancel()
	_, err := d.remove(ctx, key)
	return err
}

// release ends leases of a worker that has left. A lease that has ended since it was listed is no
// error.
func (d *Dispatcher) release(ctx context.Context, leases []job.Lease) error {
	endings := make([]jobs.Ending, len(leases))
	for i, lease := range leases {
		endings[i] = jobs.Ending{Lease: lease, Kind: api.KindRelease, Left: true}
	}
	for _, ended := range d.End(ctx, endings) {
		switch {
		case ended.Err == nil, errors.Is(ended.Err, jobs.ErrLeaseLost), errors.Is(ended.Err, jobs.ErrOutcomeConflict), errors.Is(ended.Err, store.ErrNotFound):
		default:
			return ended.Err
		}
	}
	return nil
}

// WorkerLeft ends the claims of a worker that has left, and forgets it, in this core.
func (d *Dispatcher) WorkerLeft(owner tenant.ID, workerID string) {
	key := cache.WorkerKey{Owner: owner, ID: workerID}
	d.callers.leave(key)
	d.workers.Forget(key)
}

// TenantLeft ends the claims of a tenant's workers that wait here: its jobs are in another cell now. What they have leased is theirs.
func (d *Dispatcher) TenantLeft(owner tenant.ID) { d.callers.leave(allOf(owner)) }

// allOf are all workers of a tenant, as a caller.
func allOf(owner tenant.ID) cache.WorkerKey { return cache.WorkerKey{Owner: owner} }

// callers are the workers with claims under way.
type callers struct {
	mu      sync.Mutex
	workers map[cache.WorkerKey]*caller
}

// caller is a worker until it leaves, or has no claim under way.
type caller struct {
	left   chan struct{}
	claims int
}

// enter counts a claim until done. left is closed when the worker leaves meanwhile.
func (c *callers) enter(key cache.WorkerKey) (left <-chan struct{}, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.workers[key]
	if one == nil {
		if c.workers == nil {
			c.workers = map[cache.WorkerKey]*caller{}
		}
		one = &caller{left: make(chan struct{})}
		c.workers[key] = one
	}
	one.claims++
	return one.left, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if one.claims--; one.claims == 0 && c.workers[key] == one {
			delete(c.workers, key)
		}
	}
}

// leave ends the claims of a worker that are under way; later ones are not affected.
func (c *callers) leave(key cache.WorkerKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.workers[key]; one != nil {
		close(one.left)
		delete(c.workers, key)
	}
}

func isClosed(left <-chan struct{}) bool {
	select {
	case <-left:
		return true
	default:
		return false
	}
}
