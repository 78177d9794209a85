package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

func TestNewLogger(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger, err := telemetry.NewLogger(&out, "json", "warn")
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("too quiet")
	logger.Warn("heard", "queue", "default")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("not one JSON line: %q", out.String())
	}
	if line["msg"] != "heard" || line["queue"] != "default" {
		t.Fatalf("line %v", line)
	}
	out.Reset()
	logger, err = telemetry.NewLogger(&out, "text", "DEBUG")
	if err != nil {
		t.Fatal(err)
	}
	logger.Debug("plain")
	if !strings.Contains(out.String(), "msg=plain") {
		t.Fatalf("not text: %q", out.String())
	}
}

func TestNewLoggerRefuses(t *testing.T) {
	t.Parallel()
	for _, given := range [][2]string{{"xml", "info"}, {"json", "loud"}, {"", "info"}, {"json", ""}} {
		if _, err := telemetry.NewLogger(io.Discard, given[0], given[1]); err == nil {
			t.Errorf("format %q with level %q was accepted", given[0], given[1])
		}
	}
}

func TestAdminHandlerServesMetricsAndProfilesOnly(t *testing.T) {
	t.Parallel()
	handler := telemetry.AdminHandler(telemetry.NewRegistry())
	at := context.WithValue(t.Context(), http.LocalAddrContextKey, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.5:9090")))
	tests := []struct {
		method, path string
		from         string
		status       int
		part         string
	}{
		{"GET", "/metrics", "127.0.0.1:1", 200, "go_goroutines"},
		{"GET", "/metrics", "10.0.0.7:1", 200, "process_open_fds"},
		{"GET", "/debug/pprof/", "127.0.0.1:1", 200, "heap"},
		{"GET", "/debug/pprof/goroutine?debug=1", "[::1]:1", 200, "goroutine profile"},
		{"GET", "/debug/pprof/", "[::ffff:127.0.0.1]:1", 200, "heap"},
		{"GET", "/debug/pprof/", "10.0.0.5:1", 200, "heap"}, // of this machine, as the listener
		{"GET", "/debug/pprof/", "10.0.0.7:1", 404, ""},
		{"GET", "/debug/pprof/heap", "10.0.0.7:1", 404, ""},
		{"GET", "/debug/pprof/profile?seconds=1", "[2001:db8::1]:1", 404, ""},
		{"POST", "/debug/pprof/symbol", "nowhere", 404, ""},
		{"POST", "/metrics", "127.0.0.1:1", 405, ""},
		{"GET", "/", "127.0.0.1:1", 404, ""},
		{"GET", "/v1/jobs", "127.0.0.1:1", 404, ""},
	}
	for _, test := range tests {
		recorder := httptest.NewRecorder()
		request := httptest.NewRequestWithContext(at, test.method, test.path, http.NoBody)
		request.RemoteAddr, request.Host = test.from, "localhost:9090"
		handler.ServeHTTP(recorder, request)
		if recorder.Code != test.status || !strings.Contains(recorder.Body.String(), test.part) {
			t.Errorf("%s %s from %s: status %d, want %d with %q", test.method, test.path, test.from, recorder.Code, test.status, test.part)
		}
	}
}

// A name that a stranger's page has resolve to this machine opens no profiles.
func TestProfilesAskForAHostThatIsHere(t *testing.T) {
	t.Parallel()
	handler := telemetry.AdminHandler(telemetry.NewRegistry())
	at := context.WithValue(t.Context(), http.LocalAddrContextKey, net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.5:9090")))
	for host, status := range map[string]int{
		"localhost": 200, "LOCALHOST.:9090": 200, "127.0.0.1:9090": 200, "127.1.2.3": 200, "[::1]:9090": 200, "[::1]": 200, "10.0.0.5:9090": 200,
		"evil.example:9090": 404, "localhost.evil.example": 404, "127.0.0.1.evil.example": 404, "10.0.0.7:9090": 404, "": 404,
	} {
		for path, want := range map[string]int{"/debug/pprof/": status, "/debug/pprof/cmdline": status, "/debug/pprof/heap": status, "/metrics": 200} {
			recorder := httptest.NewRecorder()
			request := httptest.NewRequestWithContext(at, http.MethodGet, path, http.NoBody)
			request.RemoteAddr, request.Host = "127.0.0.1:1", host
			handler.ServeHTTP(recorder, request)
			if recorder.Code != want {
				t.Errorf("Host %q, %s: status %d, want %d", host, path, recorder.Code, want)
			}
		}
	}
}
