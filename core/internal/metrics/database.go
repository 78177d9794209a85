package metrics

import "github.com/prometheus/client_golang/prometheus"

// Connections is how a core's pool of database connections stands.
type Connections struct {
	Idle, Used, Max int32
	// Refused counts the calls that found no free one in time.
	Refused int64
}

// RegisterDatabase registers the metrics of a core's pool; now is asked at each scrape.
func RegisterDatabase(registry prometheus.Registerer, now func() Connections) {
	for state, value := range map[string]func(Connections) int32{
		"idle": func(c Connections) int32 { return c.Idle },
		"used": func(c Connections) int32 { return c.Used },
		"max":  func(c Connections) int32 { return c.Max },
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "forgequeue_database_connections", Help: "This core's connections to PostgreSQL, idle and used, and how many there may be at most.",
			ConstLabels: prometheus.Labels{"state": state},
		}, func() float64 { return float64(value(now())) }))
	}
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "forgequeue_database_wait_refusals_total", Help: "Calls refused because no database connection was free within FORGEQUEUE_DATABASE_WAIT.",
	}, func() float64 { return float64(now().Refused) }))
}
