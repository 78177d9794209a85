package app

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/server/secret"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// Metrics lists by name every metric that a gateway's /metrics can have. It starts
// nothing.
func Metrics() ([]telemetry.Metric, error) {
	cfg := Config{CoreURL: "http://core.invalid", HopSecret: secret.Text(make([]byte, identity.MinSecretBytes))}
	return telemetry.Describe(func(registry prometheus.Registerer) error {
		parts, err := cfg.assemble(slog.New(slog.DiscardHandler), registry, nil)
		if err != nil {
			return err
		}
		return parts.close()
	})
}

// newProcessorSeconds registers the time in the seats of the processors, and gives what adds to it.
func newProcessorSeconds(registry prometheus.Registerer) func(operation string, took time.Duration) {
	return telemetry.WorkSeconds(registry, prometheus.CounterOpts{
		Name: "forgequeue_gateway_processor_seconds_total",
		Help: "Time in the seats of this process's processors, by work: decode (bodies), write (calls to core), open and read (core's answers), encode (answers), page (of the console), types (values checked).",
	}, "decode", "write", "open", "read", "encode", "page", "types")
}
