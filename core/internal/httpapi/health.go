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
	found := s.checkReadiness(ctx)
	if found.Status == statusDraining {
		return response{status: http.StatusServiceUnavailable, value: found}, nil
	}
	return response{status: http.StatusOK, value: found}, nil
}

// readiness says what /readyz says, as a signed call.
func (s *Server) readiness(ctx context.Context, _ hop.Item[struct{}]) (api.Readiness, error) {
	return s.checkReadiness(ctx), nil
}

const statusDraining = "draining"

// checkReadiness: a core without its database is degraded, and still takes calls; only one
// that is about to stop wants no more work.
func (s *Server) checkReadiness(ctx context.Context) api.Readiness {
	if s.Draining() {
		return api.Readiness{Status: statusDraining, Checks: map[string]string{}}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	readiness := api.Readiness{Status: "ok", Checks: map[string]string{"database": "ok"}}
	switch err := s.Store.Writable(ctx); {
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
	answer := func(w http.ResponseWriter, status int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value) // the caller has gone
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusServiceUnavailable, api.Readiness{Status: "starting", Checks: map[string]string{"database": "down"}, Reason: reason()})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refusal := problem.New(problem.CoreUnavailable, "Core waits for its database. Nothing was changed; try again later.").WithRetryAfter(waitingRetry)
		refusal.Instance = r.URL.Path
		refusal.Write(w)
	})
	return mux
}

// waitingRetry is when a caller may ask again.
const waitingRetry = 2 * time.Second
