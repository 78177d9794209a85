package dispatch

import "time"

// ParkedClaims counts the claims that wait.
func (d *Dispatcher) ParkedClaims() int { return len(d.parking.filters()) }

// AgeWorkers makes what is known of claiming workers older.
func (d *Dispatcher) AgeWorkers(by time.Duration) {
	d.workers.mu.Lock()
	defer d.workers.mu.Unlock()
	for key, worker := range d.workers.known {
		worker.at = worker.at.Add(-by)
		d.workers.known[key] = worker
	}
}

// SeenEvery and LanesPerClaim are the limits that tests go beyond.
const (
	SeenEvery     = seenEvery
	LanesPerClaim = lanesPerClaim
)
