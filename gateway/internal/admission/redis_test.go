package admission_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
)

// hang is a guard against a test that would never end, not a bound on speed.
const hang = 20 * time.Second

func connect(t *testing.T, url string) *admission.Redis {
	t.Helper()
	r, err := admission.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if got := patient(t, storetest.Redis(t)).Check(t.Context()); got != admission.CheckOK {
		t.Errorf("a running Redis is %q", got)
	}
	if got := connect(t, "").Check(t.Context()); got != admission.CheckNotConfigured {
		t.Errorf("no Redis is %q", got)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if got := patient(t, storetest.Redis(t)).Check(left); got != admission.CheckOK {
		t.Errorf("a running Redis is %q to a caller that has left", got)
	}
}

// A server that takes connections and never answers is the worst case: the
// budget ends it, and the next second's callers do not ask again.
func TestCheckOfAFrozenRedis(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	r := connect(t, "redis://"+listener.Addr().String())
	began := time.Now()
	if got := r.Check(t.Context()); got != admission.CheckDown {
		t.Fatalf("a frozen Redis is %q", got)
	}
	if took := time.Since(began); took > hang/2 {
		t.Fatalf("that took %v", took)
	}
}

func TestConnectRefusesAndHidesThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://x", "redis://:hunter2@x/zero", "::"} {
		_, err := admission.Connect(url)
		if err == nil || admission.CheckURL(url) == nil {
			t.Errorf("%q was taken", url)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	none, err := admission.Connect("")
	if err != nil {
		t.Fatal(err)
	}
	if state := none.State(t.Context()); state != nil {
		t.Errorf("without Redis: %+v", state)
	}
	r, err := admission.ConnectWithin(storetest.Redis(t), hang)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	state := r.State(t.Context())
	if state == nil || state.Version == "" || state.Mode != "standalone" || state.UsedBytes <= 0 || state.Policy == "" || state.Clients < 1 {
		t.Errorf("%+v", state)
	}
}
