package bucket

import "github.com/prometheus/client_golang/prometheus"

// metrics of a limiter. Their labels have few values, never a name.
type metrics struct {
	decisions *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, l *Limiter) *metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forgequeue_admission_decisions_total",
			Help: "Requests that admission decided, by mode (redis, or local: by this gateway without Redis) and verdict: admitted, rate_limited, active_cap_reached, cost_above_burst.",
		}, []string{"mode", "verdict"}),
	}
	for _, mode := range []Mode{ModeRedis, ModeLocal} {
		for _, verdict := range []Verdict{Admitted, RateLimited, CapReached, CostAboveBurst} {
			m.decisions.WithLabelValues(string(mode), verdict.String()) // there from the start, at 0
		}
	}
	registry.MustRegister(
		m.decisions,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "forgequeue_admission_local",
			Help: "1 while this gateway decides without Redis, 0 otherwise.",
		}, func() float64 {
			if l.Mode() == ModeLocal {
				return 1
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "forgequeue_admission_gateways",
			Help: "Gateways that share the rates while Redis is down: as last seen in Redis, or as configured.",
		}, func() float64 { return float64(l.Replicas()) }),
	)
	return m
}

func (m *metrics) decided(d *Decision) {
	mode := ModeRedis
	if d.Local {
		mode = ModeLocal
	}
	m.decisions.WithLabelValues(string(mode), d.Verdict.String()).Inc()
}
