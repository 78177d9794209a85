package push_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Calls without an answer give a reason that contains no address.
func TestFailuresAreNamed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	encrypted := httptest.NewUnstartedServer(http.NotFoundHandler())
	encrypted.Config.ErrorLog = nil
	encrypted.StartTLS()
	t.Cleanup(encrypted.Close)
	plain := newDestination(t, says(200, ""))
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for url, kind := range map[string]string{
		"http://10.0.0.1:1/":       "address_refused",
		"https://169.254.169.254/": "address_refused",
		"https://[::1]:1/":         "address_refused",
		encrypted.URL:              "tls",
		strings.Replace(plain.URL, "http:", "https:", 1): "tls",
		closed.URL: "connection_refused",
	} {
		owner := f.newTenant()
		f.put(owner, "hooks", url, patient)
		job := f.ends(owner, f.submit(owner, "hooks", 1)[0], api.StateScheduled)
		if job.Attempt != 1 || job.LastError.Type != kind {
			t.Errorf("%s: attempt %d, %+v", url, job.Attempt, job.LastError)
		}
		for _, address := range []string{"10.0.0.1", "169.254", "127.0.0.1", "::1"} {
			if strings.Contains(job.LastError.Message, address) || strings.Contains(job.LastError.Stack, address) {
				t.Errorf("%s: %+v", url, job.LastError)
			}
		}
	}
	if len(plain.got()) != 0 {
		t.Error("a call over TLS was answered by a server without")
	}
}

// A destination that takes connections and says nothing opens its breaker too.
func TestDestinationThatHangsOpensItsBreaker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered, ended := make(chan struct{}, 100), make(chan struct{}, 100)
	d := newDestination(t, hangs(entered, ended))
	f.put(f.tenant, "hooks", d.URL, quickly, func(r *api.QueueRequest) { r.Push.TimeoutMS = new(int64(300)) })
	f.submit(f.tenant, "hooks", 4)
	celltest.Eventually(t, "the breaker to open", func() bool { return f.breaker(f.tenant, "hooks").State == api.BreakerOpen })
	waiting := f.submit(f.tenant, "hooks", 1)[0]
	d.set(says(200, ""))
	f.ends(f.tenant, waiting, api.StateCompleted)
}
