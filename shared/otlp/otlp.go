// Package otlp exports spans by OTLP over HTTP. It brings gRPC's and protobuf's types along, so only the programs
// that export spans import it: their main gives New to the services' settings.
package otlp

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// New makes an exporter that posts to a URL. Headers, certificates and timeouts come from the OTEL_* variables of the
// process.
func New(ctx context.Context, url string) (sdktrace.SpanExporter, error) {
	return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(url))
}
