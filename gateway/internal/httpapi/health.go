package httpapi

import (
	"context"
	"maps"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
)

// landing is the answer of the root: links to the parts of the API.
type landing struct {
	Name   string `json:"name"`
	API    string `json:"api"`
	Docs   string `json:"docs"`
	Health string `json:"health"`
}

// root answers GET /: what this is, and where its parts are.
func (s *Server) root(context.Context, *call.Call, call.None) (call.Response[landing], error) {
	return call.Response[landing]{Value: landing{Name: "ForgeQueue", API: "/v1", Docs: "/docs", Health: "/readyz"}}, nil
}

// alive is the answer of /livez.
type alive struct {
	Status string `json:"status"`
}

// livez answers GET /livez: 200 as long as the process can answer at all. It
// checks nothing else: an outage of core must not restart every gateway.
//
//	@Summary     Liveness
//	@Description 200 while the process can answer. It checks nothing else: an outage of core must not restart every gateway.
//	@ID          checkLiveness
//	@Tags        Health
//	@Success     200 {object} httpapi.alive "Alive."
func (s *Server) livez(context.Context, *call.Call, call.None) (call.Response[alive], error) {
	return call.Response[alive]{Value: alive{Status: "ok"}}, nil
}

// readyz answers GET /readyz: 200 ok, or 200 degraded where core or Redis is down,
// since no other gateway would do better. 503 starting until core has answered for
// the first time, and 503 draining at the end. It takes no longer than
// probeTimeout.
//
//	@Summary     Readiness
//	@Description 200 `ok`, or 200 `degraded` if core or Redis is unavailable: another gateway would not do better. 503 `starting` until core has answered for the first time, 503 `draining` while the gateway shuts down.
//	@ID          checkReadiness
//	@Tags        Health
//	@Success     200 {object} api.Readiness "Ready."
//	@Failure     503 {object} api.Readiness "Starting or shutting down."
func (s *Server) readyz(ctx context.Context, _ *call.Call, _ call.None) (call.Response[api.Readiness], error) {
	checks := s.checks(ctx)
	answer := api.Readiness{Status: "ok", Checks: checks}
	if checks["core"] != admission.CheckOK || checks["redis"] == admission.CheckDown {
		answer.Status = "degraded"
	}
	switch {
	case s.draining.Load():
		answer.Status = "draining"
	case !s.probe.EverUp():
		answer.Status = "starting"
	default:
		return call.Response[api.Readiness]{Value: answer}, nil
	}
	return call.Response[api.Readiness]{Status: http.StatusServiceUnavailable, Value: answer}, nil
}

// checks asks core and Redis at the same time.
func (s *Server) checks(ctx context.Context) map[string]string {
	core := make(chan string, 1)
	go func() { core <- s.probe.Check(ctx) }()
	checks := map[string]string{"redis": s.redis.Check(ctx)}
	checks["core"] = <-core
	return checks
}

// installation answers GET /v1/admin/installation with how the stores are, and what runs in them.
//
//	@Summary     Read the state of the installation
//	@Description Cores and gateways as they report themselves, the last run of `core verify`, Redis as the gateway that answers sees it, PostgreSQL as its statistics views show it (connections, the oldest transaction, dead rows, standbys), statements of cores that have run for more than a second, and the redrives by filter that go on, of all tenants. `checks` are those of `/readyz` of the gateway that answers, and, where there are several, of core's cells. It needs four statements, whatever the backlog.
//	@ID          getInstallation
//	@Tags        Admin
//	@Success     200 {object} api.Installation "The state."
func (s *Server) installation(ctx context.Context, c *call.Call, _ call.None) (call.Response[api.Installation], error) {
	found, err := s.handlers.Installation(ctx, c)
	if err == nil {
		checks := s.checks(ctx)
		maps.Copy(checks, found.Value.Checks) // core's are of its cells
		found.Value.Checks, found.Value.Redis = checks, s.redis.State(ctx)
	}
	return found, err
}
