// Package httpapi is core's internal API: calls from gateways, each signed as a whole and
// with up to 1000 items, each item with its own principal. The table of routes is in
// routes.go; what an operation does is in packages operations and administration. It is the only package of core with gin.
package httpapi

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/administration"
	"github.com/forgequeue/forgequeue/core/internal/operations"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/server/memory"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// Server answers gateways.
type Server struct {
	// Operations and Administration serve the items of calls.
	Operations     *operations.Operations
	Administration *administration.Administration
	Cell           Cell
	Verifier       identity.Verifier
	Logger         *slog.Logger
	// Bodies bounds the memory of calls' bodies, see NewBodies.
	Bodies *memory.Budget
	// Processors are the seats in which requests are decoded and answers encoded; its own if nil.
	Processors *seats.Seats
	// Draining says that this process is about to stop.
	Draining func() bool
	// Tracer makes spans; nil makes none.
	Tracer    trace.Tracer
	durations *prometheus.HistogramVec
	expired   prometheus.Counter
}

// Handler makes the router and registers the metrics of its routes.
func (s *Server) Handler(registry prometheus.Registerer) http.Handler {
	s.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "forgequeue_core_request_duration_seconds",
		Help: "Internal calls by route and status.", NativeHistogramBucketFactor: 1.1,
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"route", "status"})
	s.expired = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "forgequeue_assertions_expired_total",
		Help: "Signed calls refused because of their time: the clock of a gateway, or of this core, is wrong. The gateway then corrects the difference.",
	})
	registry.MustRegister(s.durations, s.expired)
	if s.Processors == nil {
		s.Processors = seats.Processors()
	}

	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	_ = router.SetTrustedProxies(nil) // nil is always accepted
	router.HandleMethodNotAllowed = true
	router.RedirectTrailingSlash = false
	router.NoRoute(func(c *gin.Context) { s.refuse(c, problem.New(problem.NotFound, "There is no such route.")) })
	router.NoMethod(func(c *gin.Context) {
		s.refuse(c, problem.New(problem.MethodNotAllowed, "This route does not have the method "+c.Request.Method+"."))
	})
	router.Use(s.observe, s.recover)
	for path, serve := range s.probes() {
		router.Match([]string{http.MethodGet, http.MethodHead}, s.Cell.Prefix+path, s.probe(serve))
	}
	for _, r := range s.routes() {
		router.POST(s.Cell.Prefix+r.op.Path, s.verify, s.adapt(r.op.Path, s.ofCell(r)))
	}
	return router
}

// observe counts and logs a request.
func (s *Server) observe(c *gin.Context) {
	start := time.Now()
	c.Next()
	route := c.FullPath()
	if route == "" {
		route = "none"
	}
	s.durations.WithLabelValues(route, strconv.Itoa(c.Writer.Status())).Observe(time.Since(start).Seconds())
	s.Logger.DebugContext(c.Request.Context(), "call", "route", route, "status", c.Writer.Status(), "duration_ms", time.Since(start).Milliseconds())
}

// recover turns a handler's panic into an internal error.
func (s *Server) recover(c *gin.Context) {
	defer func() {
		if failure := recover(); failure != nil {
			s.Logger.ErrorContext(c.Request.Context(), "a handler panicked", "panic", failure, "route", c.FullPath(), "stack", string(debug.Stack()))
			if !c.Writer.Written() {
				s.refuse(c, problem.New(problem.Internal, "The request could not be served."))
			}
		}
	}()
	c.Next()
}
