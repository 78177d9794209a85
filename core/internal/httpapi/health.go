package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// livez says that the process is alive. 200 as long as it can answer at all.
//
//	@Success     200 {object} map[string]string "Alive."
func (*Server) livez(context.Context, []byte) (response, error) {
	return response{status: http.StatusOK, value: map[string]string{"status": "ok"}}, nil
}

// readyz says whether calls should be sent to this core. 200 `ok`, or 200 `degraded` if the database is
// `down` or `read_only`; 503 `starting` with the reason until it was reached for the first time, 503
// `draining` once core is about to stop.
//
//	@Success     200 {object} api.Readiness "Ready."
//	@Failure     503 {object} api.Readiness "It waits for its database, or is about to stop."
func (s *Server) readyz(ctx context.Context, _ []byte) (response, error) {
	found := s.Readiness(ctx)
	return response{status: readyStatus(found), value: found}, nil
}

// readyStatus is the status of /readyz.
func readyStatus(found api.Readiness) int {
	if found.Status == statusDraining || found.Status == statusStarting {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// readiness says what /readyz says, as a signed call.
func (s *Server) readiness(ctx context.Context, _ hop.Item[struct{}]) (api.Readiness, error) {
	return s.Readiness(ctx), nil
}

const (
	statusDraining = "draining"
	statusStarting = "starting"
)

// Readiness is what /readyz says: a core without its database is degraded, and still takes calls; only one
// that is about to stop wants no more work.
func (s *Server) Readiness(ctx context.Context) api.Readiness {
	if s.Draining() {
		return api.Readiness{Status: statusDraining, Checks: map[string]string{}}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	readiness := api.Readiness{Status: "ok", Checks: map[string]string{"database": "ok"}}
	switch err := s.Operations.Store.Writable(ctx); {
	case err == nil:
	case errors.Is(err, store.ErrReadOnly):
		readiness.Status, readiness.Checks["database"] = "degraded", "read_only"
	default:
		readiness.Status, readiness.Checks["database"] = "degraded", "down"
	}
	return readiness
}

// Waiting answers while core has no database yet: /livez is 200, /readyz 503 with the reason, and each call 503.
func Waiting(reason func() string) http.Handler {
	mux := probes(func(context.Context) api.Readiness {
		return api.Readiness{Status: statusStarting, Checks: map[string]string{"database": "down"}, Reason: reason()}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refusal := problem.New(problem.CoreUnavailable, "Core waits for its database. Nothing was changed; try again later.").WithRetryAfter(waitingRetry)
		refusal.Instance = r.URL.Path
		refusal.Write(w)
	})
	return mux
}

// Probes answers the probes of a process that serves several cells, and refuses all else.
func Probes(ready func(context.Context) api.Readiness) http.Handler {
	mux := probes(ready)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refusal := problem.New(problem.NotFound, "There is no such route. The routes of a cell are below /cells/NAME: FORGEQUEUE_CORE_URL of the gateway is to name each.")
		refusal.Instance = r.URL.Path
		refusal.Write(w)
	})
	return mux
}

func probes(ready func(context.Context) api.Readiness) *http.ServeMux {
	answer := func(w http.ResponseWriter, status int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value) // the caller has gone
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		found := ready(r.Context())
		answer(w, readyStatus(found), found)
	})
	return mux
}

// waitingRetry is when a caller may ask again.
const waitingRetry = 2 * time.Second
