package metrics

import "github.com/prometheus/client_golang/prometheus"

// Connections is the state of a core's pool of database connections.
type Connections struct {
	Idle, Used, Max int32
	// Waiting is how many calls wait for one.
	Waiting int32
	// Refused counts the calls without a free one in time.
	Refused int64
	// Timeline is that of the newest primary known, 0 if the server does not tell it.
	Timeline uint32
	// OldTimeline and OtherSystem count how often a server that takes writes was found not to be the
	// primary, and not used.
	OldTimeline, OtherSystem int64
}

// Reasons why a server that takes writes is not used.
const (
	// OldTimeline: it was the primary before a failover.
	OldTimeline = "old_timeline"
	// OtherSystem: it is no copy of the database that core started on.
	OtherSystem = "other_system"
)

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
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "forgequeue_database_timeline", Help: "PostgreSQL's timeline, which each failover raises; 0 if the server does not tell it. The same in every core.",
	}, func() float64 { return float64(now().Timeline) }))
	for reason, value := range map[string]func(Connections) int64{
		OldTimeline: func(c Connections) int64 { return c.OldTimeline },
		OtherSystem: func(c Connections) int64 { return c.OtherSystem },
	} {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "forgequeue_database_refused_servers_total", Help: "How often a PostgreSQL server that takes writes was found not to be the primary, and was not used: it was the primary before a failover, or is of another database.",
			ConstLabels: prometheus.Labels{"reason": reason},
		}, func() float64 { return float64(value(now())) }))
	}
}
