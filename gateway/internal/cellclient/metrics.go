package cellclient

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// metrics of the hop. Their labels are words from short lists.
type metrics struct {
	refusals  *prometheus.CounterVec
	repeats   *prometheus.CounterVec
	exhausted *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, g *gate, b *breakers) *metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
	}
	m := &metrics{
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forgequeue_hop_refusals_total",
			Help: "Calls that were not sent to core, by class and reason: queue_full, displaced (by a more urgent call), waited (too long), parked_full, breaker_open, memory (answers take it all; some were sent).",
		}, []string{"class", "reason"}),
		repeats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forgequeue_hop_retries_total",
			Help: "Calls sent to core again, by class and reason: not_sent, reply_lost.",
		}, []string{"class", "reason"}),
		exhausted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "forgequeue_hop_retry_budget_exhausted_total",
			Help: "Calls that were not sent again because repeats had reached a tenth of all calls.",
		}, []string{"class"}),
	}
	registry.MustRegister(m.refusals, m.repeats, m.exhausted)
	m.start()
	for c := range hop.ClassParked + 1 {
		watch := func(name, help string, value func() int) {
			registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: name, Help: help, ConstLabels: prometheus.Labels{"class": c.String()},
			}, func() float64 { return float64(value()) }))
		}
		watch("forgequeue_hop_in_flight", "Calls to core in flight.", func() int { busy, _ := g.counts(c); return busy })
		if c == hop.ClassParked {
			break // it neither waits for a turn nor has a breaker
		}
		watch("forgequeue_hop_waiting", "Calls that wait for their turn.", func() int { _, waiting := g.counts(c); return waiting })
		watch("forgequeue_hop_breaker_state", "0 closed, 1 half-open, 2 open.", func() int { return int(b[c].State()) })
	}
	return m
}

// start makes every series that there can be, at 0: a rate sees the first event.
func (m *metrics) start() {
	for c := range hop.ClassProbe + 1 {
		m.exhausted.WithLabelValues(c.String())
		for _, reason := range []string{reasonNotSent, reasonReplyLost} {
			m.repeats.WithLabelValues(c.String(), reason)
		}
	}
	for c := range hop.OrderedClasses {
		for _, reason := range []string{reasonFull, reasonDisplaced, reasonWaited, reasonOpen, reasonMemory} {
			m.refusals.WithLabelValues(c.String(), reason)
		}
	}
	for _, reason := range []string{reasonParked, reasonMemory} {
		m.refusals.WithLabelValues(hop.ClassParked.String(), reason)
	}
}

// refused counts a call that was not sent. One whose caller has left is no refusal.
func (m *metrics) refused(c hop.Class, err error) {
	if away, ok := errors.AsType[turnedAwayError](err); ok {
		m.refusals.WithLabelValues(c.String(), away.reason).Inc()
	}
	if errors.Is(err, errOpen) {
		m.refusals.WithLabelValues(c.String(), reasonOpen).Inc()
	}
}

func (m *metrics) repeated(c hop.Class, sent bool) {
	reason := reasonNotSent
	if sent {
		reason = reasonReplyLost
	}
	m.repeats.WithLabelValues(c.String(), reason).Inc()
}
