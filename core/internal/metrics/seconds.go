package metrics

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// NewSeconds registers a counter of seconds, by the operation that took them, none if it is empty, and gives what adds to it.
func NewSeconds(registry prometheus.Registerer, name, help string) func(operation string, took time.Duration) {
	seconds := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"operation"})
	registry.MustRegister(seconds)
	return func(operation string, took time.Duration) {
		seconds.WithLabelValues(cmp.Or(operation, "none")).Add(took.Seconds())
	}
}
