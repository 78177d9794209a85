package dispatch

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// ParkedClaims counts the claims that wait.
func (d *Dispatcher) ParkedClaims() int { return d.parking.count() }

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
	d.lines.mu.Lock()
	defer d.lines.mu.Unlock()
	for _, lane := range d.lines.lanes {
		for i := range lane.by {
			lane.by[i].after.At, lane.by[i].ready = to, false
		}
	}
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
	d.lines.mu.Lock()
	defer d.lines.mu.Unlock()
	return len(d.lines.lanes)
}
