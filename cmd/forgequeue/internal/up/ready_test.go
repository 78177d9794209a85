//go:build unix

package up

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// keyServer is a gateway that knows some keys and one tenant.
type keyServer struct {
	*httptest.Server
	keys map[string]bool
	// failing is how many more questions about a key are answered 503.
	failing atomic.Int32
	tenants []string
	made    []string
}

func newKeyServer(t *testing.T) *keyServer {
	t.Helper()
	s := &keyServer{keys: map[string]bool{"own": true, "platform": true}, tenants: []string{"t1"}}
	mux := http.NewServeMux()
	write := func(w http.ResponseWriter, status int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
	mux.HandleFunc("GET /v1/whoami", func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case s.failing.Add(-1) >= 0:
			problem.New(problem.CoreUnavailable, "").Write(w)
		case !s.keys[key]:
			problem.New(problem.Unauthenticated, "").Write(w)
		default:
			write(w, http.StatusOK, api.Whoami{Tenant: new("t1"), Scopes: api.Scopes(), KeyID: "k"})
		}
	})
	mux.HandleFunc("GET /v1/admin/tenants/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") != s.tenants[0] {
			problem.New(problem.NotFound, "").Write(w)
			return
		}
		write(w, http.StatusOK, api.Tenant{ID: s.tenants[0]})
	})
	mux.HandleFunc("POST /v1/admin/tenants", func(w http.ResponseWriter, _ *http.Request) {
		s.made = append(s.made, "tenant")
		write(w, http.StatusCreated, api.Tenant{ID: "t2"})
	})
	mux.HandleFunc("POST /v1/admin/tenants/{id}/keys", func(w http.ResponseWriter, r *http.Request) {
		s.made = append(s.made, "key of "+r.PathValue("id"))
		write(w, http.StatusCreated, api.NewKey{Secret: "new own"})
	})
	mux.HandleFunc("POST /v1/admin/platform-keys", func(w http.ResponseWriter, _ *http.Request) {
		s.made = append(s.made, "platform key")
		write(w, http.StatusCreated, api.NewKey{Secret: "new platform"})
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// A stored key that the server refuses is replaced by one of the same tenant, and nothing else changes: the jobs stay in
// sight. A server that says neither yes nor no changes nothing.
func TestStoredKeysAreReplacedForTheSameTenant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*keyServer)
		made   string
		said   string
		want   credentials
		fails  bool
	}{
		"both work":                {func(*keyServer) {}, "", "", credentials{Tenant: "t1", APIKey: "own", PlatformKey: "platform"}, false},
		"the API key is revoked":   {func(s *keyServer) { s.keys["own"] = false }, "key of t1", "same tenant t1", credentials{Tenant: "t1", APIKey: "new own", PlatformKey: "platform"}, false},
		"the platform key is":      {func(s *keyServer) { s.keys["platform"] = false }, "platform key", "platform key is no longer valid", credentials{Tenant: "t1", APIKey: "own", PlatformKey: "new platform"}, false},
		"both are":                 {func(s *keyServer) { clear(s.keys) }, "key of t1, platform key", "same tenant t1", credentials{Tenant: "t1", APIKey: "new own", PlatformKey: "new platform"}, false},
		"another database":         {func(s *keyServer) { clear(s.keys); s.tenants[0] = "other" }, "tenant, key of t2, platform key", "no tenant t1", credentials{Tenant: "t2", APIKey: "new own", PlatformKey: "new platform"}, false},
		"one 503":                  {func(s *keyServer) { s.failing.Store(1) }, "", "", credentials{Tenant: "t1", APIKey: "own", PlatformKey: "platform"}, false},
		"503 for as long as asked": {func(s *keyServer) { s.failing.Store(1 << 20) }, "", "", credentials{Tenant: "t1", APIKey: "own", PlatformKey: "platform"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newKeyServer(t)
			c.change(s)
			f, err := openFolder(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer f.close()
			kept := credentials{Tenant: "t1", APIKey: "own", PlatformKey: "platform", OperatorKey: "operator"}
			c.want.OperatorKey = kept.OperatorKey
			var errs bytes.Buffer
			if err := ensureKeys(t.Context(), s.URL, f, &kept, &errs); (err != nil) != c.fails {
				t.Fatal(err)
			}
			if made := strings.Join(s.made, ", "); made != c.made || kept != c.want {
				t.Errorf("made %q, kept %+v", made, kept)
			}
			if !strings.Contains(errs.String(), c.said) || c.said == "" && errs.Len() > 0 {
				t.Errorf("it says %q", errs.String())
			}
		})
	}
}

// A server that redirects is not the gateway, whatever the server behind it answers.
func TestARedirectIsNotReady(t *testing.T) {
	t.Parallel()
	ready := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.Readiness{Checks: map[string]string{"core": "ok"}})
	}))
	defer ready.Close()
	other := httptest.NewServer(http.RedirectHandler(ready.URL+"/readyz", http.StatusFound))
	defer other.Close()
	if ok, said := isReady(t.Context(), ready.URL); !ok {
		t.Fatalf("a ready gateway is not ready: %s", said)
	}
	if ok, _ := isReady(t.Context(), other.URL); ok {
		t.Error("a redirect counts as ready")
	}
}
