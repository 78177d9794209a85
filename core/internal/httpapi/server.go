// Package httpapi is core's internal API: batch-shaped calls from gateways, each
// signed as a whole, each item with its own principal. It is the only package
// of core with gin.
package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/clock"
	"github.com/forgequeue/forgequeue/shared/identity"
	"github.com/forgequeue/forgequeue/shared/memory"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// TimeoutHeader carries how long the gateway still waits, in milliseconds. It is
// not signed: at worst a request ends early.
const TimeoutHeader = "Forgequeue-Timeout-Ms"

// defaultTimeout is for a caller that names none; claims wait on top of it.
const defaultTimeout = 30 * time.Second

// Server answers gateways.
type Server struct {
	Store      *cell.Cell
	Dispatcher *dispatch.Dispatcher
	Hints      *hints.Hints
	Verifier   identity.Verifier
	Logger     *slog.Logger
	// Seals keeps the secrets of queues in push mode; nil where there are no such queues.
	Seals *seal.Keys
	// Pages seals the page tokens of lists. All cores have the same keys.
	Pages *seal.Keys
	// Guard says which addresses they may push to.
	Guard outbound.Guard
	// Bodies bounds the memory of calls' bodies, see NewBodies.
	Bodies *memory.Budget
	// Draining says that this process is about to stop.
	Draining func() bool
	// Tracer makes spans; nil makes none.
	Tracer    trace.Tracer
	durations *prometheus.HistogramVec
	expired   prometheus.Counter
}

// Handler makes the routes and registers their metrics.
func (s *Server) Handler(registry prometheus.Registerer) http.Handler {
	s.durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "forgequeue_core_request_duration_seconds",
		Help: "Internal calls by route and status.", NativeHistogramBucketFactor: 1.1,
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"route", "status"})
	s.expired = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "forgequeue_assertions_expired_total",
		Help: "Signed calls refused for their time: a gateway's clock, or this one, is off. The gateway then corrects itself.",
	})
	registry.MustRegister(s.durations, s.expired)

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

	probes := []string{http.MethodGet, http.MethodHead}
	router.Match(probes, "/livez", func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) })
	router.Match(probes, "/readyz", s.readyz)

	internal := router.Group("", s.verify)
	route(s, internal, api.HopSubmit, s.submit)
	route(s, internal, api.HopGet, each(s.get))
	route(s, internal, api.HopHeartbeat, each(s.heartbeat))
	// at once, so that they share a commit
	route(s, internal, api.HopOutcome, atOnce(s.outcomes))
	route(s, internal, api.HopRegister, each(s.register))
	route(s, internal, api.HopKeyLookup, each(s.lookupKey))
	route(s, internal, api.HopTenantCreate, each(operator(s.createTenant)))
	route(s, internal, api.HopTenantList, each(operator(s.listTenants)))
	route(s, internal, api.HopTenantPatch, each(operator(s.patchTenant)))
	route(s, internal, api.HopKeyCreate, each(operator(s.createKey)))
	route(s, internal, api.HopKeyList, each(operator(s.listKeys)))
	route(s, internal, api.HopKeyRevoke, each(operator(s.revokeKey)))
	route(s, internal, api.HopPlanGet, each(operator(s.getPlan)))
	route(s, internal, api.HopPlanPut, each(operator(s.putPlan)))
	route(s, internal, api.HopReady, each(s.ready))
	route(s, internal, api.HopList, each(s.list))
	route(s, internal, api.HopAttempts, each(s.attempts))
	route(s, internal, api.HopCancel, each(s.cancel))
	route(s, internal, api.HopRedrive, each(s.redrive))
	route(s, internal, api.HopDeadLetters, each(s.deadLetters))
	route(s, internal, api.HopDeadLetterRedrive, each(s.redriveMany))
	route(s, internal, api.HopDeadLetterDiscard, each(s.discardMany))
	route(s, internal, api.HopDeadLetterGroups, each(s.deadLetterGroups))
	route(s, internal, api.HopRedriveGet, each(s.getRedrive))
	route(s, internal, api.HopRedriveList, each(s.listRedrives))
	route(s, internal, api.HopRedriveCancel, each(s.cancelRedrive))
	route(s, internal, api.HopAudit, each(s.audit))
	route(s, internal, api.HopWorkers, each(s.listWorkers))
	route(s, internal, api.HopQueues, each(s.listQueues))
	route(s, internal, api.HopQueueGet, each(s.getQueue))
	route(s, internal, api.HopQueuePut, each(s.putQueue))
	route(s, internal, api.HopQueuePause, each(s.pauseQueue))
	route(s, internal, api.HopCaps, each(s.caps))
	route(s, internal, api.HopWait, atOnce(s.wait))
	internal.POST(api.HopClaim, s.claims)
	return router
}

// route adapts a function over items to HTTP.
func route[Req, Resp any](s *Server, group *gin.RouterGroup, path string, serve func(context.Context, []api.Item[Req]) []api.Result[Resp]) {
	group.POST(path, func(c *gin.Context) {
		items, ok := items[Req](s, c)
		if !ok {
			return
		}
		ctx, cancel := withTimeout(c.Request, 0)
		defer cancel()
		_ = s.answer(c, api.Results[Resp]{Results: serve(s.tracing(ctx, path), items)})
	})
}

// each serves items one by one. Group commit takes its place where it pays.
func each[Req, Resp any](serve func(context.Context, api.Item[Req]) (Resp, error)) func(context.Context, []api.Item[Req]) []api.Result[Resp] {
	return func(ctx context.Context, items []api.Item[Req]) []api.Result[Resp] {
		results := make([]api.Result[Resp], len(items))
		for i := range items {
			ctx, span := itemSpan(ctx, &items[i])
			value, err := serve(audit.WithActor(ctx, actor(items[i].Principal)), items[i])
			results[i] = result(ctx, &items[i], &value, err)
			endSpan(span, &results[i])
		}
		return results
	}
}

// atOnce serves items side by side: each may wait.
func atOnce[Req, Resp any](serve func(context.Context, api.Item[Req]) (Resp, error)) func(context.Context, []api.Item[Req]) []api.Result[Resp] {
	return func(ctx context.Context, items []api.Item[Req]) []api.Result[Resp] {
		results := make([]api.Result[Resp], len(items))
		var group sync.WaitGroup
		for i := range items {
			group.Go(func() {
				ctx, span := itemSpan(ctx, &items[i])
				defer func() { endSpan(span, &results[i]) }()
				defer guard(ctx, &items[i], &results[i])
				value, err := serve(ctx, items[i])
				results[i] = result(ctx, &items[i], &value, err)
			})
		}
		group.Wait()
		return results
	}
}

// operator lets only the operator through.
func operator[Req, Resp any](serve func(context.Context, api.Item[Req]) (Resp, error)) func(context.Context, api.Item[Req]) (Resp, error) {
	return func(ctx context.Context, item api.Item[Req]) (Resp, error) {
		if item.Principal.Kind != api.PrincipalOperator {
			var none Resp
			return none, problem.New(problem.Forbidden, "Only the operator key may do this.")
		}
		return serve(ctx, item)
	}
}

// bodyFactor is what a call takes at once for each byte of its body: the body, what
// is decoded from it, and that as a statement's arguments.
const bodyFactor = 3

// NewBodies makes the budget for the memory of calls' bodies: most bytes for all,
// three quarters of them for one route. The last fifth is not for submits.
func NewBodies(most int64) *memory.Budget {
	return memory.NewBudget(memory.Options{Most: most, Share: most / 4 * 3, Factor: bodyFactor})
}

type bodyKey struct{}

// verify lets only signed requests through. The body is read before it is
// believed, and bounded before it is read.
func (s *Server) verify(c *gin.Context) {
	if c.GetHeader(identity.Header) == "" { // not even worth its body
		s.refuse(c, problem.New(problem.Unauthenticated, "Only signed requests are answered."))
		return
	}
	held := s.Bodies.Hold(c.Request.URL.Path, c.Request.URL.Path != api.HopSubmit)
	defer held.Release()
	body, err := held.Read(nil, http.MaxBytesReader(c.Writer, c.Request.Body, api.MaxHopBody), c.Request.ContentLength)
	if err != nil {
		s.refuse(c, unread(err))
		return
	}
	now := clock.Now()
	switch err := s.Verifier.Verify(c.GetHeader(identity.Header), c.Request.Method, c.Request.URL.Path, body, now); {
	case errors.Is(err, identity.ErrReplayed):
		s.Logger.WarnContext(c.Request.Context(), "a signed call came twice and was refused the second time", "path", c.Request.URL.Path)
		s.refuse(c, taken())
	case errors.Is(err, identity.ErrExpired):
		s.expired.Inc()
		c.Header(identity.TimeHeader, strconv.FormatInt(now.UnixMicro(), 10)) // for the gateway, which signs again
		s.refuse(c, problem.New(problem.AssertionExpired, "The signature's time is too far from core's; the answer carries core's."))
	case err != nil:
		s.refuse(c, problem.New(problem.Unauthenticated, "Only signed requests are answered."))
	default:
		ctx := context.WithValue(c.Request.Context(), loggerKey{}, s.Logger)
		c.Request = c.Request.WithContext(context.WithValue(ctx, bodyKey{}, body))
		c.Next() // here, so that the memory counts until the answer is written
	}
}

// taken refuses a call that was taken already. It has no clock for the gateway to
// learn: if a copy came first, the call may have been made, and must not be made again.
func taken() *problem.Problem {
	return &problem.Problem{
		Type: "about:blank", Title: "The signed call was taken before", Status: http.StatusConflict,
		Detail: "A call with this signature was taken before; what became of it is not said here.",
		Code:   identity.TakenCode, Errors: []problem.FieldError{}, Policies: []problem.Policy{},
	}
}

// unread says why a body was not read to its end.
func unread(err error) *problem.Problem {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		return problem.New(problem.PayloadTooLarge, "An internal call may have 64 MiB.")
	case errors.Is(err, memory.ErrFull), errors.Is(err, memory.ErrShare):
		return problem.New(problem.Overloaded, "The calls that are under way hold as much memory as they may; nothing was changed. Try again later.").WithRetryAfter(time.Second)
	}
	return problem.New(problem.InvalidRequest, "The body did not arrive whole.")
}

// items decodes the envelope.
func items[Req any](s *Server, c *gin.Context) ([]api.Item[Req], bool) {
	body, _ := c.Request.Context().Value(bodyKey{}).([]byte)
	var envelope api.Envelope[Req]
	// It is the gateway's, which has refused what is doubtful in its callers' JSON.
	if err := json.Unmarshal(body, &envelope, jsontext.AllowDuplicateNames(true)); err != nil {
		s.refuse(c, problem.New(problem.InvalidJSON, "The envelope cannot be read: "+err.Error()))
		return nil, false
	}
	if len(envelope.Items) == 0 || len(envelope.Items) > api.MaxHopItems {
		s.refuse(c, problem.Invalid(problem.FieldError{Field: "items", Message: "must have 1 to 1000 entries"}))
		return nil, false
	}
	return envelope.Items, true
}

// withTimeout hands the gateway's deadline on.
func withTimeout(r *http.Request, wait time.Duration) (context.Context, context.CancelFunc) {
	timeout := defaultTimeout + wait
	// compared as milliseconds: as a Duration a huge number would be a negative one
	if ms, err := strconv.ParseInt(r.Header.Get(TimeoutHeader), 10, 64); err == nil && ms > 0 && ms < timeout.Milliseconds() {
		timeout = time.Duration(ms) * time.Millisecond
	}
	return context.WithTimeout(r.Context(), timeout)
}

// answer writes the results; an error means that they did not leave this process.
func (s *Server) answer(c *gin.Context, results any) error {
	body, err := encode(results)
	if err != nil {
		s.Logger.ErrorContext(c.Request.Context(), "an answer cannot be encoded", "error", err)
		s.refuse(c, problem.New(problem.Internal, "The answer cannot be encoded."))
		return err
	}
	header := c.Writer.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	c.Writer.WriteHeader(http.StatusOK)
	_, err = c.Writer.Write(body)
	return err
}

func (s *Server) refuse(c *gin.Context, p *problem.Problem) {
	p.Instance = c.Request.URL.Path
	p.Write(c.Writer)
	c.Abort()
}

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

func (s *Server) recover(c *gin.Context) {
	defer func() {
		if failure := recover(); failure != nil {
			s.Logger.ErrorContext(c.Request.Context(), "a handler panicked", "panic", failure, "route", c.FullPath(), "stack", stack())
			if !c.Writer.Written() {
				s.refuse(c, problem.New(problem.Internal, "The request could not be served."))
			}
		}
	}()
	c.Next()
}

func (s *Server) readyz(c *gin.Context) {
	readiness, status := s.readiness(c.Request.Context())
	c.JSON(status, readiness)
}
