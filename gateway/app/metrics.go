package app

import (
	"log/slog"

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
