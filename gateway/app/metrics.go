package app

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/identity"
	"github.com/forgequeue/forgequeue/shared/secret"
	"github.com/forgequeue/forgequeue/shared/telemetry"
)

// Metrics lists by name what a gateway's /metrics can have, whatever it has counted.
// Nothing is started for it.
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
