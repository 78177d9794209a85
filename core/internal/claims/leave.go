package claims

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/pace"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// leaveTime bounds a goodbye: it goes on when its caller has gone, who may be ending.
	leaveTime = 20 * time.Second
	// leaveBatch is how many leases one statement lists, and one flush ends.
	leaveBatch = pace.FlushJobs
)

// Leave removes a worker and gives its leases back at once, attempt included. A repeat, and an
// unknown worker, are no error: the repeat gives back what the first call did not.
//
// The worker's claims under way end empty, in this core before its leases are listed: a claim's lease
// is either committed by then, and listed, or given back by the claim itself. Other cores are told by
// a hint. A claim there that commits before the hint arrives keeps its lease until it runs out, as
// does any claim if the hint is lost.
func (w *Workers) Leave(ctx context.Context, owner tenant.ID, workerID string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	key := cache.WorkerKey{Owner: owner, ID: workerID}
	w.callers.leave(key)
	removed, err := w.remove(ctx, key)
	if err != nil {
		return err
	}
	if removed.Known {
		w.metrics.Left.Inc()
	}
	w.publisher.TellWorkerLeft(owner, workerID)
	for {
		leases, err := w.store.JobReads.HeldBy(ctx, owner, workerID, removed.At, leaveBatch)
		if err != nil {
			return err
		}
		if err := w.release(ctx, leases); err != nil {
			return err
		}
		if len(leases) < leaveBatch {
			return nil
		}
	}
}

// remove deletes the worker's row, and then what is cached of it.
func (w *Workers) remove(ctx context.Context, key cache.WorkerKey) (workers.Removed, error) {
	removed, err := w.store.Workers.Remove(ctx, key.Owner, key.ID)
	w.known.Forget(key)
	return removed, err
}

// removeAgain is remove for a claim of a worker that has left, even when ctx has ended.
func (w *Workers) removeAgain(ctx context.Context, key cache.WorkerKey) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTime)
	defer cancel()
	_, err := w.remove(ctx, key)
	return err
}

// release ends leases of a worker that has left. A lease that has ended since it was listed is no
// error.
func (w *Workers) release(ctx context.Context, leases []job.Lease) error {
	endings := make([]jobs.Ending, len(leases))
	for i, lease := range leases {
		endings[i] = jobs.Ending{Lease: lease, Kind: api.KindRelease, Left: true}
	}
	for _, ended := range w.outcomes.End(ctx, endings) {
		switch {
		case ended.Err == nil, errors.Is(ended.Err, jobs.ErrLeaseLost), errors.Is(ended.Err, jobs.ErrOutcomeConflict), errors.Is(ended.Err, store.ErrNotFound):
		default:
			return ended.Err
		}
	}
	return nil
}

// WorkerLeft ends the claims of a worker that has left, and forgets it, in this core.
func (w *Workers) WorkerLeft(owner tenant.ID, workerID string) {
	key := cache.WorkerKey{Owner: owner, ID: workerID}
	w.callers.leave(key)
	w.known.Forget(key)
}

// TenantLeft ends the claims of a tenant's workers that wait here: its jobs are in another cell now. What they have leased is theirs.
func (w *Workers) TenantLeft(owner tenant.ID) { w.callers.leave(allOf(owner)) }

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

// isClosed says whether a worker has left.
func isClosed(left <-chan struct{}) bool {
	select {
	case <-left:
		return true
	default:
		return false
	}
}
