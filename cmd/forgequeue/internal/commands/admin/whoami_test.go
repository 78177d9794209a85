package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
)

// An answer of something that is no ForgeQueue is shown, not trusted.
func TestAnotherServer(t *testing.T) {
	f := commandtest.New(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = fmt.Fprint(w, "short \x1b[31mand stout")
	}))
	defer server.Close()
	r := f.With("FORGEQUEUE_URL", server.URL).Want(1, []string{"418", "stout"}, "whoami")
	if strings.Contains(r.Err, "\x1b") {
		t.Errorf("%q", r.Err)
	}
}

// The key of an `up` on this machine is used for that server, and sent to no other.
func TestTheKeyOfALocalUp(t *testing.T) {
	f := commandtest.New(t).With("FORGEQUEUE_API_KEY", "")
	f.Local = func() (up.Running, bool) {
		return up.Running{Gateway: f.Ready.Gateway, APIKey: f.Ready.APIKey, OperatorKey: f.Ready.OperatorKey, Data: "/the/data"}, true
	}
	f.Want(0, []string{"using the key of", "/the/data"}, "whoami")
	f.With("FORGEQUEUE_URL", "").Want(0, []string{"using the key of"}, "whoami")
	f.With("FORGEQUEUE_URL", strings.Replace(f.Ready.Gateway, "127.0.0.1", "localhost", 1)+"/").Want(0, []string{"using the key of"}, "whoami")
	for _, other := range []string{"http://forgequeue.example:8080", "http://127.0.0.1:1", "http://ada:hunter2@127.0.0.1:1"} {
		r := f.With("FORGEQUEUE_URL", other).Want(3, []string{
			"FORGEQUEUE_API_KEY is not set", "runs here at " + f.Ready.Gateway, "FORGEQUEUE_URL names another", "not sent there",
		}, "whoami")
		if strings.Contains(r.Err, "no `forgequeue up`") || strings.Contains(r.Err, "hunter2") || strings.Contains(r.Err, f.Ready.APIKey) {
			t.Errorf("%s: %s", other, r.Err)
		}
	}
	f.With("FORGEQUEUE_OPERATOR_KEY", "").Want(0, []string{"using the key of"}, "plan", "get", "standard")
}
