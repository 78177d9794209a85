package metrics

import "github.com/prometheus/client_golang/prometheus"

// Workers counts registered, lost and deleted workers, and those that left.
type Workers struct {
	Registered prometheus.Counter
	Left       prometheus.Counter
	Lost       prometheus.Counter
	Pruned     prometheus.Counter
}

func newWorkers(m maker) *Workers {
	return &Workers{
		Registered: m.counter("workers_registered_total", "Workers that were new, or dead before, and registered or made a first claim."),
		Left:       m.counter("workers_left_total", "Workers that deregistered."),
		Lost:       m.counter("workers_lost_total", "Workers without a heartbeat for so long that they count as dead."),
		Pruned:     m.counter("workers_pruned_total", "Dead workers that were deleted."),
	}
}
