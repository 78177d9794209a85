package metrics

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// noOperation stands for what is no operation's: of several callers', or a duty's.
const noOperation = "none"

// NewDatabaseSeconds registers the time of the connections, by operation, and gives what adds to it.
func NewDatabaseSeconds(registry prometheus.Registerer, operations []string) func(operation string, took time.Duration) {
	seconds := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "forgequeue_database_seconds_total",
		Help: "Time that calls had a connection to PostgreSQL, by operation; none is what several callers share, and the duties.",
	}, []string{"operation"})
	registry.MustRegister(seconds)
	for _, operation := range append(operations, noOperation) {
		seconds.WithLabelValues(operation) // there from the start, at 0
	}
	return func(operation string, took time.Duration) {
		seconds.WithLabelValues(cmp.Or(operation, noOperation)).Add(took.Seconds())
	}
}

// NewProcessorSeconds registers the time in the seats of the processors, and gives what adds to it.
func NewProcessorSeconds(registry prometheus.Registerer) func(operation string, took time.Duration) {
	return telemetry.WorkSeconds(registry, prometheus.CounterOpts{
		Name: "forgequeue_core_processor_seconds_total",
		Help: "Time in the seats of this process's processors, by work: decode (calls), encode (answers), types (schemas compiled, values checked).",
	}, "decode", "encode", "types")
}
