package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// WorkSeconds registers a counter of seconds by kind of work, and gives what adds to it: an operation is
// its kind. What is none of the given kinds is not counted: it is of another service in the process.
func WorkSeconds(registry prometheus.Registerer, o prometheus.CounterOpts, work ...string) func(operation string, took time.Duration) {
	seconds := prometheus.NewCounterVec(o, []string{"work"})
	registry.MustRegister(seconds)
	of := map[string]prometheus.Counter{}
	for _, kind := range work {
		of[kind] = seconds.WithLabelValues(kind) // there from the start, at 0
	}
	return func(operation string, took time.Duration) {
		if counter := of[operation]; counter != nil {
			counter.Add(took.Seconds())
		}
	}
}
