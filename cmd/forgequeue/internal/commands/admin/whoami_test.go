package admin_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
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
	f.Local = func() []localup.Running {
		return []localup.Running{{Gateway: f.Ready.Gateway, APIKey: f.Ready.APIKey, OperatorKey: f.Ready.OperatorKey, Data: "/the/data"}}
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

// Of several `up`s on this machine none is guessed: a URL chooses.
func TestOneOfSeveralLocalUps(t *testing.T) {
	f := commandtest.New(t).With("FORGEQUEUE_API_KEY", "").With("FORGEQUEUE_URL", "")
	f.Local = func() []localup.Running {
		return []localup.Running{
			{Gateway: "http://127.0.0.1:1", APIKey: "fq_other", Data: "/usual"},
			{Gateway: f.Ready.Gateway, APIKey: f.Ready.APIKey, Data: "/the/data"},
		}
	}
	f.Want(3, []string{"several `forgequeue up` started by your user run here", "http://127.0.0.1:1 (/usual)", "(/the/data)", "--url"}, "whoami")
	f.Want(0, []string{"using the key of", "/the/data"}, "whoami", "--url", f.Ready.Gateway)
	f.With("FORGEQUEUE_URL", f.Ready.Gateway).Want(0, []string{"/the/data"}, "whoami")
	f.Want(3, []string{"FORGEQUEUE_URL names another server", "not sent there"}[1:], "whoami", "--url", "http://127.0.0.1:2")
}

func TestOpen(t *testing.T) {
	f := commandtest.New(t)
	var opened string
	f.Browse = func(url string) error { opened = url; return nil }
	if f.Want(0, []string{f.Ready.Gateway + "/docs"}, "open"); opened != f.Ready.Gateway+"/docs" {
		t.Errorf("opened %q", opened)
	}
	opened = ""
	f.With("FORGEQUEUE_URL", "").Want(0, []string{f.Usual + "/docs"}, "open", "docs", "--print")
	f.Want(0, []string{"http://127.0.0.1:2/docs"}, "open", "--url", "http://127.0.0.1:2", "--print")
	f.Want(0, []string{f.Ready.Gateway + "/console/enter/"}, "open", "console", "--print")
	f.Want(2, []string{"docs"}, "open", "nothing", "--print")
	f.With("FORGEQUEUE_URL", "ftp://x").Want(3, []string{"http://"}, "open")
	if opened != "" {
		t.Errorf("opened %q", opened)
	}
	f.Browse = func(string) error { return errors.New("no display") }
	f.Want(1, []string{f.Ready.Gateway + "/docs", "no display", "yourself"}, "open")
}

// A real `up` is found on a data folder of its own.
func TestARunningUpIsFound(t *testing.T) {
	f := commandtest.New(t).With("FORGEQUEUE_API_KEY", "").With("FORGEQUEUE_URL", "")
	f.Local = localup.Find
	f.Want(0, []string{"using the key of the `forgequeue up` that runs here (" + f.Ready.Data + ")"}, "whoami", "--url", f.Ready.Gateway)
}
