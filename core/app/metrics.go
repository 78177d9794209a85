package app

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// meters are core's metrics, without those of calls, which its server has.
type meters struct {
	jobs   *metrics.Jobs
	push   *metrics.Push
	depths *metrics.Depths
	queues *metrics.Queues
}

func newMeters(registry prometheus.Registerer, connections func() metrics.Connections, flushes func() metrics.Flushes) meters {
	metrics.RegisterDatabase(registry, connections)
	metrics.RegisterFlushes(registry, flushes)
	return meters{jobs: metrics.NewJobs(registry), push: metrics.NewPush(registry), depths: metrics.NewDepths(registry), queues: metrics.NewQueues(registry)}
}

// Metrics lists by name what a core's /metrics can contain. It starts nothing.
func Metrics() ([]telemetry.Metric, error) {
	return telemetry.Describe(func(registry prometheus.Registerer) error {
		newMeters(registry, func() metrics.Connections { return metrics.Connections{} }, func() metrics.Flushes { return metrics.Flushes{} })
		metrics.NewProcessorSeconds(registry)
		metrics.NewDatabaseSeconds(registry, httpapi.Operations())
		(&httpapi.Server{Logger: slog.New(slog.DiscardHandler)}).Handler(registry)
		return nil
	})
}
