package up

import (
	"io"
	"log/slog"

	coreapp "github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// Options are the flags of `up`.
type Options struct {
	// Data is the data folder; empty is the default one.
	Data string
	// Listen is the gateway's address, host:port.
	Listen string
	// Demo runs the sample worker and, on a new data folder, submits the first jobs.
	Demo bool
	// JSON prints one line of JSON when ready, instead of text.
	JSON bool
	// Out and Err are standard output and error.
	Out, Err io.Writer
	// Brokers and Exporter are what the program was built with: see core's and telemetry's settings.
	Brokers  []coreapp.Broker
	Exporter telemetry.Exporter

	sampleLog *slog.Logger
}

// SettingError is an error of the machine or its settings.
type SettingError struct{ err error }

func (e *SettingError) Error() string { return e.err.Error() }
func (e *SettingError) Unwrap() error { return e.err }
