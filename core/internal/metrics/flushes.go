package metrics

import "github.com/prometheus/client_golang/prometheus"

// Flushes is how many requests wait for a flush of this core.
type Flushes struct {
	Submits, Outcomes, Heartbeats int
	// GuardedTenants is how many tenants have guarded submits in progress.
	GuardedTenants int
}

// RegisterFlushes registers the metrics of a core's flushes; now is called at each scrape.
func RegisterFlushes(registry prometheus.Registerer, now func() Flushes) {
	for kind, value := range map[string]func(Flushes) int{
		"submit":    func(f Flushes) int { return f.Submits },
		"outcome":   func(f Flushes) int { return f.Outcomes },
		"heartbeat": func(f Flushes) int { return f.Heartbeats },
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "forgequeue_flush_waiting", Help: "Requests that wait for the next group commit; of the submits, those without an Idempotency-Key and a cap.",
			ConstLabels: prometheus.Labels{"kind": kind},
		}, func() float64 { return float64(value(now())) }))
	}
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "forgequeue_flush_guarded_tenants", Help: "Tenants with submits in progress that need the tenant lock.",
	}, func() float64 { return float64(now().GuardedTenants) }))
}
