package telemetry_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/telemetry"
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
	tests := []struct {
		method, path string
		status       int
		part         string
	}{
		{"GET", "/metrics", 200, "go_goroutines"},
		{"GET", "/metrics", 200, "process_open_fds"},
		{"GET", "/debug/pprof/", 200, "heap"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"POST", "/metrics", 405, ""},
		{"GET", "/", 404, ""},
		{"GET", "/v1/jobs", 404, ""},
	}
	for _, test := range tests {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), test.method, test.path, http.NoBody))
		if recorder.Code != test.status || !strings.Contains(recorder.Body.String(), test.part) {
			t.Errorf("%s %s: status %d, want %d with %q", test.method, test.path, recorder.Code, test.status, test.part)
		}
	}
}
