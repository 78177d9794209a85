package metrics

import "github.com/prometheus/client_golang/prometheus"

// Push counts the calls to the destinations of queues in push mode.
type Push struct {
	Outcomes       *prometheus.CounterVec // outcome
	QuickTries     prometheus.Counter
	BreakerChanges *prometheus.CounterVec // state
	BreakersOpen   prometheus.Gauge
	InFlight       prometheus.Gauge
	Duration       prometheus.Histogram
}

// NewPush makes the metrics and registers them.
func NewPush(registry prometheus.Registerer) *Push {
	p := &Push{
		Outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forgequeue_push_outcomes_total",
			Help: "Jobs claimed for push, by outcome: completed, published (to a broker, its consumer ends the job), failed, permanent, snoozed, probe_failed, given_back, cancelled or lost.",
		}, []string{"outcome"}),
		QuickTries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "forgequeue_push_quick_tries_total", Help: "Calls made again within an attempt.",
		}),
		BreakerChanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forgequeue_push_breaker_changes_total", Help: "State changes of destinations' breakers, by the new state.",
		}, []string{"state"}),
		BreakersOpen: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "forgequeue_push_breakers_open", Help: "Destinations' breakers that are open or half-open.",
		}),
		InFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "forgequeue_push_in_flight", Help: "Jobs that this core is sending to their destinations.",
		}),
		Duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "forgequeue_push_duration_seconds", Help: "From claimed to ended, of jobs that are pushed.",
			Buckets:                     []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
			NativeHistogramBucketFactor: 1.1,
		}),
	}
	for _, outcome := range []string{"completed", "published", "failed", "permanent", "snoozed", "probe_failed", "given_back", "cancelled", "lost"} {
		p.Outcomes.WithLabelValues(outcome) // initialised to 0
	}
	for _, state := range []string{"closed", "half-open", "open"} {
		p.BreakerChanges.WithLabelValues(state)
	}
	registry.MustRegister(p.Outcomes, p.QuickTries, p.BreakerChanges, p.BreakersOpen, p.InFlight, p.Duration)
	return p
}
