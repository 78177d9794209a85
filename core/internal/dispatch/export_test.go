package dispatch

import (
	"maps"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/scheduler"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// ParkedClaims counts the claims that wait.
func (d *Dispatcher) ParkedClaims() int { return d.parking.Count() }

// AgeWorkers makes what is known of claiming workers older.
func (d *Dispatcher) AgeWorkers(by time.Duration) {
	d.workers.mu.Lock()
	defer d.workers.mu.Unlock()
	for key, worker := range d.workers.known {
		worker.at = worker.at.Add(-by)
		d.workers.known[key] = worker
	}
}

// SeenEvery and LinesPerClaim are the limits that tests go beyond.
const (
	SeenEvery     = seenEvery
	LinesPerClaim = linesPerClaim
)

// WaitingSubmits counts the plain submits that wait for a flush.
func (d *Dispatcher) WaitingSubmits() int { return d.flushes.plain.Waiting() }

// GuardedGroups counts the tenants that have a group of their own.
func (d *Dispatcher) GuardedGroups() int {
	d.flushes.mu.Lock()
	defer d.flushes.mu.Unlock()
	return len(d.flushes.guarded)
}

// ClaimsAtTheGate counts a tenant's claims under a cap that are through or wait.
func (d *Dispatcher) ClaimsAtTheGate(id tenant.ID) int {
	d.claimGate.mu.Lock()
	defer d.claimGate.mu.Unlock()
	if one := d.claimGate.tenants[id]; one != nil {
		return one.users
	}
	return 0
}

// SpoilCursors sets every cursor to a time, and says that nothing waits.
func (d *Dispatcher) SpoilCursors(to time.Time) {
	everything := &scheduler.Filter{Owner: tenant.Platform, Queues: d.lanes.names()}
	made := d.plan(&scheduler.DRR{}, everything, 1<<20, 1<<20, nil)
	seen := make([]queue.ScanProgress, 0, len(made.lists))
	for _, key := range made.lists {
		seen = append(seen, queue.ScanProgress{Lane: key.Lane, Priority: key.Priority, To: queue.Cursor{At: to}, Exhausted: true})
	}
	d.lines.Scanned(made.lists, seen)
}

// names are the names of all known queues.
func (l *Lanes) names() []string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(maps.Keys(l.byName))
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

// KnownLines counts the lanes of which lines are remembered.
func (d *Dispatcher) KnownLines() int {
	known, _ := d.lines.Known(scheduler.ListKey{}, 1<<20)
	lanes := map[directory.LaneID]bool{}
	for _, line := range known {
		lanes[line.Lane] = true
	}
	return len(lanes)
}
