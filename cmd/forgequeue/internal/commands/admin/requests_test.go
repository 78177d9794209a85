package admin_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A command about one thing reads no list, and no other version of it.
func TestCommandsAskForOneThing(t *testing.T) {
	f := commandtest.New(t)
	tenant := commandtest.Decode[api.Tenant](f, f.Must("tenant", "create", "Shop Bonn", "-o", "json"))
	kind := f.Queue() + ".mail"
	f.Must("type", "set", kind, "--description", "first")
	gateway, err := url.Parse(f.Ready.Gateway)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var asked []string
	proxy := httputil.NewSingleHostReverseProxy(gateway)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.URL.RequestURI())
		mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	through := f.With("FORGEQUEUE_URL", server.URL)
	for _, c := range []struct {
		args, want []string
	}{
		{[]string{"tenant", "set", tenant.ID, "max_active=5"}, []string{"GET /v1/admin/tenants/" + tenant.ID, "PATCH /v1/admin/tenants/" + tenant.ID}},
		{[]string{"type", "get", kind, "--at-version", "1"}, []string{"GET /v1/types/" + kind + "?version=1"}},
	} {
		mu.Lock()
		asked = nil
		mu.Unlock()
		through.Must(c.args...)
		mu.Lock()
		if !slices.Equal(asked, c.want) {
			t.Errorf("%q asks %q, want %q", c.args, asked, c.want)
		}
		mu.Unlock()
	}
}
