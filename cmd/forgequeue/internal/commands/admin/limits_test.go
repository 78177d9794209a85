package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What limits there are is the gateway's affair; how they are shown is tried on a
// server that answers as the contract says, so that each kind is there.
func TestLimits(t *testing.T) {
	f := commandtest.New(t)
	const body = `{"policies":[{"name":"tenant-jobs","rate_per_second":2.5,"burst":10,"remaining":7,"reset_ms":1200}],` +
		`"caps":[{"scope":"user","kind":"running","limit":4,"used":3}],"shared_time":{"gateway":0.125,"database":0.02}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/limits" || r.Header.Get("Authorization") == "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, body)
	}))
	defer server.Close()
	fake := f.With("FORGEQUEUE_URL", server.URL)
	r := fake.Want(0, []string{"tenant-jobs", "2.5", "1.2s"}, "limits")
	if lines := strings.Split(strings.TrimSpace(r.Out), "\n"); len(lines) != 9 || strings.Join(strings.Fields(lines[4]), " ") != "running user 4 3" ||
		strings.Join(strings.Fields(lines[7]), " ") != "the gateway's processors 12.5 %" {
		t.Errorf("%q", r.Out)
	}
	if limits := commandtest.Decode[api.LimitsResponse](f, fake.Must("limits", "-o", "json")); limits.Policies[0].Remaining != 7 || limits.Caps[0].Used != 3 {
		t.Errorf("%+v", limits)
	}
	if r := f.Alone().Want(0, []string{"No rate and no cap"}, "limits"); strings.Contains(r.Out, "BURST") {
		t.Errorf("%q", r.Out)
	}
}
