package dispatch

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// ParkedClaims counts the claims that wait.
func (d *Dispatcher) ParkedClaims() int { return d.parking.Count() }

// ForgetWorkers forgets which workers have claimed lately.
func (d *Dispatcher) ForgetWorkers() { d.workers = cache.NewWorkers(d.metrics.Workers.Registered) }

// Release ends leases of a worker that has left.
func (d *Dispatcher) Release(ctx context.Context, leases ...job.Lease) error {
	return d.release(ctx, leases)
}

// ListsPerClaim is a limit that tests go beyond.
const ListsPerClaim = listsPerClaim

// WaitingClaimLocks counts a tenant's claims under a cap that are through or wait.
func (d *Dispatcher) WaitingClaimLocks(id tenant.ID) int {
	d.claimLocks.mu.Lock()
	defer d.claimLocks.mu.Unlock()
	if one := d.claimLocks.tenants[id]; one != nil {
		return one.users
	}
	return 0
}

// SpoilCursors sets every cursor to a time, and says that nothing waits.
func (d *Dispatcher) SpoilCursors(to time.Time) {
	known, _ := d.lists.Known(scheduler.ListKey{}, 1<<20)
	everything := &scheduler.Filter{Owner: tenant.Platform}
	for _, list := range known {
		lane, _ := d.lanes.ByID(list.Lane)
		everything.Queues = append(everything.Queues, lane.Queue)
	}
	made := d.plan(&scheduler.DRR{}, everything, 1<<20, 1<<20, nil)
	seen := make([]claim.ScanProgress, 0, len(made.lists))
	for _, key := range made.lists {
		seen = append(seen, claim.ScanProgress{Lane: key.Lane, Priority: key.Priority, To: jobs.Cursor{At: to}, Exhausted: true})
	}
	d.lists.Scanned(made.lists, seen)
}

// WaitingClaims counts the claims that wait for others' statements.
func (d *Dispatcher) WaitingClaims() (n int) {
	d.claims.mu.Lock()
	defer d.claims.mu.Unlock()
	for _, group := range d.claims.groups {
		n += group.Waiting()
	}
	return n
}

// Scanned says whether the ready index was gone through once.
func (d *Dispatcher) Scanned() bool { return d.scannedLately() }

// KnownLists counts the lanes of which lists are remembered.
func (d *Dispatcher) KnownLists() int {
	known, _ := d.lists.Known(scheduler.ListKey{}, 1<<20)
	lanes := map[lanes.ID]bool{}
	for _, list := range known {
		lanes[list.Lane] = true
	}
	return len(lanes)
}

// ReadAllLanes makes the next refresh read everything.
func (d *Dispatcher) ReadAllLanes() { d.lanes.ReadAll() }

// WatchedJobs are those that a client waits for.
func (d *Dispatcher) WatchedJobs() []uuid.UUID { return d.watches.Next(1<<20, 0) }
