package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"
)

const (
	// scope names the spans of this project, as opposed to those of libraries.
	scope = "github.com/forgequeue/forgequeue"
	// flushTime bounds what the last spans may cost at the end.
	flushTime = 3 * time.Second
)

// Export says where spans go. It is part of a service's settings: these are what
// decides whether there are any. All else that OpenTelemetry has a variable for
// (headers, certificates, timeouts, sampler, resource, batches) its SDK reads from
// the process's environment by itself, and so cannot be given in another way.
type Export struct {
	Endpoint       string `env:"OTEL_EXPORTER_OTLP_ENDPOINT"        doc:"URL to which spans are sent (OTLP, HTTP with protobuf), such as http://127.0.0.1:4318, to which /v1/traces is added. Without it, and without the next one, no spans are made. The SDK's other OTEL_* variables work as OpenTelemetry defines them: see tracing.md. Default none."`
	TracesEndpoint string `env:"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT" doc:"The same, as the complete URL; overrides OTEL_EXPORTER_OTLP_ENDPOINT. Default none."`
	Disabled       string `env:"OTEL_SDK_DISABLED"                  envDefault:"false" doc:"true turns spans off, even if an endpoint is set. Default false."`
	// Exporter is how spans are sent; nil in a program that was built without.
	Exporter Exporter `env:"-" json:"-"`
}

// Service is whose spans they are.
type Service struct{ Name, Version string }

// Exporter starts what makes a service's spans and sends them to a URL. stop sends what is left until its context ends,
// and ends the export.
type Exporter func(ctx context.Context, url string, of Service, logger *slog.Logger) (_ trace.TracerProvider, stop func(context.Context), _ error)

// ErrNoExporter is that of a program that was built without an exporter, where its settings ask for spans.
var ErrNoExporter = errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: this program was built without the export of spans: the images and the released programs " +
	"have it, and so has the result of go build -tags full ./cmd/forgequeue; OTEL_SDK_DISABLED=true starts this one without spans")

// ExportFrom reads settings by the names of their variables, as os.Getenv gives them.
func ExportFrom(getenv func(string) string) Export {
	return Export{
		Endpoint:       getenv("OTEL_EXPORTER_OTLP_ENDPOINT"),
		TracesEndpoint: getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
		Disabled:       getenv("OTEL_SDK_DISABLED"),
	}
}

// On says whether there are spans.
func (e Export) On() bool {
	return !strings.EqualFold(strings.TrimSpace(e.Disabled), "true") && (e.Endpoint != "" || e.TracesEndpoint != "")
}

// Check judges the settings; the error names what is wrong by its variable, and
// repeats no URL: it may hold a password.
func (e Export) Check() error {
	if !e.On() {
		return nil
	}
	_, err := e.url()
	return err
}

// url is where spans are posted to.
func (e Export) url() (string, error) {
	name, text := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", e.TracesEndpoint
	if text == "" {
		name, text = "OTEL_EXPORTER_OTLP_ENDPOINT", e.Endpoint
	}
	target, err := url.Parse(text)
	if err != nil || (target.Scheme != "http" && target.Scheme != "https") || target.Hostname() == "" ||
		target.User != nil || target.RawQuery != "" || target.Fragment != "" {
		return "", fmt.Errorf("%s: must be http:// or https://, host and port, such as http://127.0.0.1:4318; "+
			"credentials belong in OTEL_EXPORTER_OTLP_HEADERS", name)
	}
	if e.TracesEndpoint == "" {
		target = target.JoinPath("v1", "traces")
	}
	return target.String(), nil
}

// Tracing makes spans and exports them in the background. A nil Tracing makes none.
// It is not OpenTelemetry's global one: two services can live in one process.
type Tracing struct {
	provider trace.TracerProvider
	stop     func(context.Context)
}

// Start gives the Tracing of a service, nil where Export is off. service and version
// describe the resource of its spans, unless OTEL_SERVICE_NAME or
// OTEL_RESOURCE_ATTRIBUTES say otherwise. Stop it. The collector may be down: then
// spans are dropped, and no request waits for them.
func (e Export) Start(ctx context.Context, service, version string, logger *slog.Logger) (*Tracing, error) {
	if !e.On() {
		return nil, nil //nolint:nilnil // no tracing is no error
	}
	target, err := e.url()
	if err != nil {
		return nil, err
	}
	if e.Exporter == nil {
		return nil, ErrNoExporter
	}
	t := new(Tracing)
	if t.provider, t.stop, err = e.Exporter(ctx, target, Service{service, version}, logger); err != nil {
		return nil, err
	}
	return t, nil
}

// Provider is for libraries that make spans; nil where there are none.
func (t *Tracing) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// Tracer makes the spans of this project; nil where there are none.
func (t *Tracing) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer(scope)
}

// Stop sends what is left, for 3 s at most, and ends the export.
func (t *Tracing) Stop(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	t.stop(ctx)
}
