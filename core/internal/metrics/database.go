package metrics

import "github.com/prometheus/client_golang/prometheus"

// Connections is the state of a core's pool of database connections.
type Connections struct {
	Idle, Used, Max int32
	// Waiting is how many calls wait for one.
	Waiting int32
	// Refused counts the calls without a free one in time.
	Refused int64
}

// RegisterDatabase registers the metrics of a core's pool; now is called at each scrape.
func RegisterDatabase(registry prometheus.Registerer, now func() Connections) {
	for state, value := range map[string]func(Connections) int32{
		"idle":    func(c Connections) int32 { return c.Idle },
		"used":    func(c Connections) int32 { return c.Used },
		"max":     func(c Connections) int32 { return c.Max },
		"waiting": func(c Connections) int32 { return c.Waiting },
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "forgequeue_database_connections", Help: "This core's connections to PostgreSQL, idle and used, the maximum, and how many calls wait for one.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(value(now())) }))
	}
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "forgequeue_database_wait_refusals_total", Help: "Calls refused because no database connection was free within FORGEQUEUE_DATABASE_WAIT.",
	}, func() float64 { return float64(now().Refused) }))
}
