// Package otlp makes spans with OpenTelemetry's SDK and exports them by OTLP over HTTP. It brings gRPC's and protobuf's
// types along, so only the programs that export spans import it: their main gives Start to the services' settings.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

const (
	// complainEvery is how often lost spans are logged.
	complainEvery = time.Minute
	// attributeMost is how much of a text a span tells, in characters: a path, or a
	// User-Agent, is as long as who calls likes it, and 2,048 spans wait.
	attributeMost = 4096
)

// Start is a telemetry.Exporter. Headers, certificates and timeouts come from the OTEL_* variables of the process; OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES take precedence over what of says. The collector may be down: then spans are dropped, and
// no request waits for them.
func Start(ctx context.Context, url string, of telemetry.Service, logger *slog.Logger) (_ trace.TracerProvider, stop func(context.Context), _ error) {
	inner, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(url))
	if err != nil {
		return nil, nil, fmt.Errorf("export of spans: %w", err)
	}
	// The environment last: it takes precedence.
	about, err := resource.New(
		ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(),
		resource.WithAttributes(attribute.String("service.name", of.Name), attribute.String("service.version", of.Version)),
		resource.WithFromEnv(),
	)
	if err != nil { // about has what could be read
		logger.WarnContext(ctx, "what spans tell of this process is not complete; see OTEL_RESOURCE_ATTRIBUTES", "error", err)
	}
	exporting, end := context.WithCancelCause(context.WithoutCancel(ctx))
	exporter := &quietExporter{inner: inner, logger: logger, ctx: exporting, stop: end}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about), sdktrace.WithRawSpanLimits(limits()))
	return provider, func(ctx context.Context) {
		if err := provider.Shutdown(ctx); err != nil {
			logger.WarnContext(ctx, "the last spans are not exported", "error", err)
		}
		exporter.stop(errStopped) // a batch under way to a collector that hangs
	}, nil
}

// limits are the SDK's, those of the environment included, but for the length of
// texts, for which it has none.
func limits() sdktrace.SpanLimits {
	all := sdktrace.NewSpanLimits()
	if all.AttributeValueLengthLimit < 0 {
		all.AttributeValueLengthLimit = attributeMost
	}
	return all
}

var errStopped = errors.New("otlp: the process stops")

// quietExporter takes the errors of an exporter upon itself: the SDK would give them
// to a handler of the whole process, which writes each to standard error.
type quietExporter struct {
	inner  sdktrace.SpanExporter
	logger *slog.Logger
	// ctx ends every export: the SDK's own lasts for half a minute.
	ctx  context.Context
	stop context.CancelCauseFunc
	// complained is when lost spans were last logged, in Unix nanoseconds; lost is how
	// many since.
	complained, lost atomic.Int64
}

// ExportSpans sends a batch; what the collector does not take is dropped.
func (e *quietExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	detach := context.AfterFunc(e.ctx, cancel)
	defer detach()
	if err := e.inner.ExportSpans(ctx, spans); err != nil {
		lost, now, last := e.lost.Add(int64(len(spans))), time.Now(), e.complained.Load()
		if now.Sub(time.Unix(0, last)) >= complainEvery && e.complained.CompareAndSwap(last, now.UnixNano()) {
			e.lost.Add(-lost)
			e.logger.WarnContext(ctx, "spans are not exported; jobs go on without", "spans", lost, "error", err)
		}
	}
	return nil
}

// Shutdown ends the exporter.
func (e *quietExporter) Shutdown(ctx context.Context) error { return e.inner.Shutdown(ctx) }
