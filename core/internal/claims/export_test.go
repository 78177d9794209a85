package claims

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// ForgetWorkers forgets which workers have claimed lately.
func (c *Claims) ForgetWorkers() { c.known = cache.NewWorkers(c.metrics.Workers.Registered) }

// Release ends leases of a worker that has left.
func (c *Claims) Release(ctx context.Context, leases ...job.Lease) error {
	return c.release(ctx, leases)
}

// ListsPerClaim is a limit that tests go beyond.
const ListsPerClaim = listsPerClaim

// ClaimGroups counts the groups of claims in which some are under way.
func (c *Claims) ClaimGroups() (n int) {
	c.combined.mu.Lock()
	defer c.combined.mu.Unlock()
	for _, group := range c.combined.groups {
		if group.users > 0 {
			n++
		}
	}
	return n
}

// SpoilCursors sets every cursor to a time, and says that nothing waits.
func (c *Claims) SpoilCursors(to time.Time) {
	planner := c.planner
	known, _ := planner.lists.Known(scheduler.ListKey{}, 1<<20)
	everything := &scheduler.Filter{Owner: tenant.Platform}
	for _, list := range known {
		lane, _ := planner.cached.Lanes.ByID(list.Lane)
		everything.Queues = append(everything.Queues, lane.Queue)
	}
	made := planner.plan(&scheduler.DRR{}, everything, 1<<20, 1<<20, nil)
	seen := make([]claim.ScanProgress, 0, len(made.lists))
	for _, key := range made.lists {
		seen = append(seen, claim.ScanProgress{Lane: key.Lane, Priority: key.Priority, To: jobs.Cursor{At: to}, Exhausted: true})
	}
	planner.lists.Scanned(made.lists, seen)
}

// WaitingClaims counts the claims that wait for others' statements.
func (c *Claims) WaitingClaims() (n int) {
	c.combined.mu.Lock()
	defer c.combined.mu.Unlock()
	for _, group := range c.combined.groups {
		n += group.Waiting()
	}
	return n
}

// Scanned says whether the ready index was gone through once.
func (p *Polls) Scanned() bool { return p.scannedLately() }

// KnownLists counts the lanes of which lists are remembered.
func (p *Polls) KnownLists() int {
	known, _ := p.planner.lists.Known(scheduler.ListKey{}, 1<<20)
	lanes := map[lanes.ID]bool{}
	for _, list := range known {
		lanes[list.Lane] = true
	}
	return len(lanes)
}

// ScanDue says whether the ready index is to be gone through now.
func (p *Polls) ScanDue() bool { return p.scanDue() }

// ScanFailed makes the last scan one that failed.
func (p *Polls) ScanFailed() { p.waiting.Store(true) }
