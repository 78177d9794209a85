package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// callKey is gin's key for the call, from observe to handle.
const callKey = "call"

func callOf(g *gin.Context) *call.Call { return g.MustGet(callKey).(*call.Call) } //nolint:forcetypeassert // observe put it there

// observe is the outermost middleware: it gives the request its id, turns a panic into
// a problem, and records the request once, in one log line and one metric.
func (s *Server) observe(g *gin.Context) {
	c := s.newCall(g.Request)
	g.Set(callKey, c)
	g.Header("X-Request-Id", c.RequestID)
	g.Header("X-Correlation-Id", c.CorrelationID)
	g.Header("X-Content-Type-Options", "nosniff")
	defer func() {
		cut := caught(g, c, recover())
		s.record(g, c, time.Since(c.Began))
		s.describeSpan(g, c)
		if cut {
			panic(http.ErrAbortHandler) // closes the connection: a partial answer must not look complete
		}
	}()
	g.Next()
}

// caught turns a panic into a problem; cut: an answer had begun already.
func caught(g *gin.Context, c *call.Call, panicked any) (cut bool) {
	if panicked == nil {
		return false
	}
	err := fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
	if g.Writer.Written() {
		c.Code, c.Err = problem.Internal, err
		return true
	}
	refuse(g, err)
	return false
}

// newCall reads a correlation id and a trace from the headers, only if they are
// well-formed. The request id is always generated here.
func (s *Server) newCall(r *http.Request) *call.Call {
	c := &call.Call{RequestID: uuid.NewString(), Instance: request.Clip(r.URL.EscapedPath()), Began: time.Now()}
	c.CorrelationID = c.RequestID
	if given := r.Header["X-Correlation-Id"]; len(given) == 1 && api.ValidLabel(given[0]) {
		c.CorrelationID = given[0]
	}
	c.Traceparent = s.traceparent(r)
	c.Host, c.Secure = r.Host, r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
	return c
}

// record writes the canonical log line and the metric. The line never has a body,
// a query, a header's value or a path with a client's values in it.
func (s *Server) record(g *gin.Context, c *call.Call, took time.Duration) {
	status := g.Writer.Status()
	method, name := labels(g)
	s.durations.WithLabelValues(name, method, strconv.Itoa(status)).Observe(took.Seconds())

	ctx := g.Request.Context()
	left := ctx.Err() != nil
	at := level(name, status, c, left)
	if !s.logger.Enabled(ctx, at) {
		return // the level is not enabled
	}
	failure := ""
	if c.Err != nil && status >= http.StatusInternalServerError {
		failure = c.Err.Error()
	}
	verdict, address := "", ""
	if c.Payer.Decision != nil {
		verdict = c.Payer.Decision.Verdict.String()
	}
	if c.Address.IsValid() {
		address = c.Address.String()
	}
	who := c.Principal()
	s.logger.LogAttrs(ctx, at, "request",
		slog.String("request_id", c.RequestID),
		slog.String("correlation_id", c.CorrelationID),
		slog.String("trace_id", telemetry.TraceID(c.Traceparent)),
		slog.String("method", method),
		slog.String("route", name),
		slog.Int("status", status),
		slog.String("code", string(c.Code)),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
		slog.Int64("bytes_in", max(g.Request.ContentLength, 0)),
		slog.Int("bytes_out", max(g.Writer.Size(), 0)),
		slog.String("principal", who.Kind),
		slog.String("tenant", who.Tenant),
		slog.String("key_id", who.KeyID),
		slog.String("verdict", verdict),
		slog.Bool("decided_locally", c.Payer.Decision != nil && c.Payer.Decision.Local),
		slog.String("remote", g.Request.RemoteAddr),
		slog.String("address", address),
		slog.Bool("client_left", left),
		slog.String("error", failure),
	)
}

// noRoute stands for every path without a route.
const noRoute = "none"

// labels are of a bounded number: an unknown route or method is one value.
func labels(g *gin.Context) (method, name string) {
	name = g.GetString(routeKey)
	if name == "" {
		name = noRoute
	}
	switch g.Request.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return g.Request.Method, name
	}
	return "other", name
}

func level(name string, status int, c *call.Call, left bool) slog.Level {
	switch {
	case left && status >= http.StatusInternalServerError && c.Code != problem.Internal:
		return slog.LevelInfo // the caller closed the connection before the answer
	case c.Code == problem.Internal:
		return slog.LevelError
	case status >= http.StatusInternalServerError:
		return slog.LevelWarn
	case isProbe(name):
		return slog.LevelDebug // probes come every few seconds
	}
	return slog.LevelInfo
}

func newDurations(registry prometheus.Registerer) *prometheus.HistogramVec {
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:                           "forgequeue_http_request_duration_seconds",
		Help:                           "Time from the first byte of a request's headers known to its answer written.",
		ConstLabels:                    prometheus.Labels{"service": "gateway"},
		Buckets:                        []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramMaxBucketNumber: 100,
	}, []string{"route", "method", "status"})
	registry.MustRegister(durations)
	return durations
}
