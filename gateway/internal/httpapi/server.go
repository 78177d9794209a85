package httpapi

import (
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/handlers"
	"github.com/forgequeue/forgequeue/gateway/internal/mcp"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
	"github.com/forgequeue/forgequeue/shared/server/memory"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// routeKey is gin's key for the route's name, for the log line and the metric.
const routeKey = "route"

// Options of a Server.
type Options struct {
	Auth *auth.Authenticator
	Core *coreclient.Client
	// Types checks payloads.
	Types *jobtype.Checker
	Redis *admission.Redis
	// Limiter decides how much callers may.
	Limiter *admission.Limiter
	// Proxies are those trusted to name a client's address.
	Proxies request.Proxies
	// IPLimit limits the requests of an address, before authentication; nil is no limit.
	IPLimit *admission.IPLimit
	// FailedKeys limits how often an address may fail to authenticate; nil is no limit.
	FailedKeys *admission.IPLimit
	// Bodies bounds the memory of requests' bodies and answers, see request.NewBudget.
	Bodies *memory.Budget
	// Processors are the seats for the process's own computing; its own if nil.
	Processors *seats.Seats
	// KeySecret and KeyEnv are for keys that are made here.
	KeySecret []byte
	KeyEnv    string
	// PublicURL is how people reach the gateway, without a path; empty: as the request did.
	PublicURL string
	// Admin opens /v1/admin; without it these routes do not exist.
	Admin    bool
	Registry prometheus.Registerer
	Logger   *slog.Logger
	// Timeout is how long a request may take, beyond what its caller asks to wait.
	Timeout time.Duration
	// Tracing makes a span of each request; nil makes none, and costs nothing.
	Tracing trace.TracerProvider
	// Console makes what serves /console, in front of this server's own handler; nil for none.
	Console func(api http.Handler) http.Handler
	// MCP is what agents may do at /mcp; empty is off.
	MCP mcp.Mode
}

// Server is the public API. It is safe for concurrent use.
type Server struct {
	handlers  *handlers.Handlers
	auth      *auth.Authenticator
	redis     *admission.Redis
	limiter   *admission.Limiter
	proxies   request.Proxies
	addresses *admission.Addresses
	admin     bool
	durations *prometheus.HistogramVec
	logger    *slog.Logger
	tracing   trace.TracerProvider
	bodies    *request.Bodies
	// processors are the seats in which requests are decoded and answers encoded.
	processors *seats.Seats
	streams    *streams
	probe      *coreclient.Probe
	console    func(api http.Handler) http.Handler
	mcp        mcp.Mode
	publicURL  string
	draining   atomic.Bool
}

// linkPath is where a link that sends a signal is opened: at a page, or without the console at the API.
func linkPath(console bool) string {
	if console {
		return "/console/signals/"
	}
	return "/v1/signal-links/"
}

// New makes a Server; Handler is what to serve.
func New(o Options) *Server {
	if o.Processors == nil {
		o.Processors = seats.Processors()
	}
	return &Server{
		handlers: handlers.New(handlers.Options{
			Auth: o.Auth, Core: o.Core, Types: o.Types, Limiter: o.Limiter, Processors: o.Processors, KeySecret: o.KeySecret, KeyEnv: o.KeyEnv,
			PublicURL: o.PublicURL, LinkPath: linkPath(o.Console != nil), Timeout: o.Timeout,
		}),
		auth:       o.Auth,
		redis:      o.Redis,
		limiter:    o.Limiter,
		proxies:    o.Proxies,
		addresses:  admission.NewAddresses(o.IPLimit, o.FailedKeys, o.Registry),
		admin:      o.Admin,
		durations:  newDurations(o.Registry),
		logger:     o.Logger,
		tracing:    o.Tracing,
		bodies:     request.NewBodies(o.Bodies, o.Registry),
		processors: o.Processors,
		streams:    newStreams(o.Core.MaxParked(), o.Registry),
		probe:      coreclient.NewProbe(o.Core),
		console:    o.Console,
		mcp:        o.MCP,
		publicURL:  o.PublicURL,
	}
}

// Drain makes /readyz answer 503 from now on; requests are served as before.
// coreclient ends the parked calls.
func (s *Server) Drain() { s.draining.Store(true) }

// Handler is the router with its middleware.
func (s *Server) Handler() http.Handler {
	gin.SetMode(gin.ReleaseMode) // the debug mode writes to standard output, which belongs to `up --json`
	engine := gin.New()
	// gin trusts no proxy: limitAddress determines the client address.
	if err := engine.SetTrustedProxies(nil); err != nil {
		panic(err) // it fails for malformed addresses only, and there are none
	}
	engine.HandleMethodNotAllowed = true
	engine.RedirectTrailingSlash = false
	// A worker_id may hold a slash. Parameters are cut from the escaped path and
	// unescaped by handle: gin would read them as a query, where + is a space.
	engine.UseEscapedPath = true
	engine.UnescapePathValues = false

	engine.Use(s.observe, s.limitAddress, limitHeaders)
	engine.NoRoute(func(g *gin.Context) {
		refuse(g, problem.New(problem.NotFound, "There is no such resource. The API is under /v1."))
	})
	engine.NoMethod(func(g *gin.Context) {
		refuse(g, problem.New(problem.MethodNotAllowed, "The resource does not support this method; see the Allow header."))
	})
	for _, r := range s.all() {
		serve := func(g *gin.Context) {
			g.Set(routeKey, r.path)
			r.serve(s, g, r)
		}
		engine.Handle(r.method, r.pattern(), serve)
		if r.method == http.MethodGet { // net/http leaves the body of the answer out
			engine.Handle(http.MethodHead, r.pattern(), serve)
		}
	}
	served := s.traced(engine)
	if s.console != nil {
		mountConsole(engine, s.console(served))
	}
	if s.mcp == mcp.Read || s.mcp == mcp.Write {
		s.mountMCP(engine, served)
	}
	return served
}

// Routes names every route, such as "GET /v1/jobs/{id}", for documents and for
// tests that want all of them.
func (s *Server) Routes() []string {
	var names []string
	for _, r := range s.all() {
		names = append(names, r.method+" "+r.path)
	}
	return names
}

// all is every route that is served.
func (s *Server) all() []route {
	all := slices.Concat(s.routes(), s.webhookRoutes(), s.typeRoutes(), s.keyRoutes())
	if s.admin {
		all = append(all, s.adminRoutes()...)
	}
	return all
}
