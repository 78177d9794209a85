package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// traced makes a span of each request, a child of the client's where it sent a
// traceparent. Without tracing the handler is served as it is.
func (s *Server) traced(handler http.Handler) http.Handler {
	if s.tracing == nil {
		return handler
	}
	return otelhttp.NewHandler(handler, "", otelhttp.WithTracerProvider(s.tracing), otelhttp.WithPropagators(clientTrace{}),
		otelhttp.WithFilter(func(r *http.Request) bool { return !isProbe(r.URL.Path) }))
}

// traceparent is what core and the job get: the span of this request, or the
// client's header, unchanged, if no spans are made.
func (s *Server) traceparent(r *http.Request) string {
	if s.tracing != nil {
		return telemetry.Traceparent(r.Context())
	}
	given := r.Header["Traceparent"]
	if len(given) != 1 || !telemetry.ParseTraceparent(r.Context(), given[0]).IsValid() {
		return ""
	}
	return given[0]
}

// clientTrace is W3C Trace Context with the same rules with and without spans: one
// traceparent, in a form that can be passed on.
type clientTrace struct{ propagation.TraceContext }

// Extract reads the span that a client names.
func (c clientTrace) Extract(ctx context.Context, carrier propagation.TextMapCarrier) context.Context {
	headers, ok := carrier.(propagation.HeaderCarrier)
	if !ok {
		return ctx
	}
	given := headers.Values("traceparent")
	if len(given) != 1 || !telemetry.ParseTraceparent(ctx, given[0]).IsValid() {
		return ctx
	}
	return c.TraceContext.Extract(ctx, carrier)
}

// describeSpan adds to the request's span what is known at its end only. The address is
// that of limitAddress, not what otelhttp reads in X-Forwarded-For.
func (s *Server) describeSpan(g *gin.Context, c *call.Call) {
	if s.tracing == nil {
		return
	}
	span := trace.SpanFromContext(g.Request.Context())
	if !span.IsRecording() {
		return
	}
	method, name := labels(g)
	if name != noRoute {
		span.SetName(method + " " + name)
		span.SetAttributes(attribute.String("http.route", name))
		if strings.HasSuffix(name, "/{token}") { // otelhttp has noted the path
			span.SetAttributes(attribute.String("url.path", name))
		}
	}
	address := ""
	if c.Address.IsValid() {
		address = c.Address.String()
	}
	span.SetAttributes(
		attribute.String("client.address", address),
		attribute.String("forgequeue.request_id", c.RequestID),
		attribute.String("forgequeue.correlation_id", c.CorrelationID),
		attribute.String("forgequeue.tenant.id", c.Principal().Tenant),
		attribute.String("forgequeue.problem.code", string(c.Code)),
	)
}
