package httpapi_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestCanonicalLine(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	key := d.key("submit")
	const mark = "mark-that-must-not-be-logged"
	d.do("POST", "/v1/jobs?"+mark+"=1", key, `{"type":"a"}`)
	d.do("POST", "/v1/jobs", key, `{"type":"a","payload":"`+mark+`","user":"`+mark+`"}`, "X-Other", mark, "Idempotency-Key", mark)
	d.do("POST", "/v1/jobs", key, `{"`+mark+`":1}`)
	d.do("GET", "/"+mark, key, "")
	d.do("GET", "/livez", "", "")
	lines := d.log.requests(t)
	if len(lines) != 5 {
		t.Fatalf("%d lines for 5 requests", len(lines))
	}
	want := []string{
		"address", "bytes_in", "bytes_out", "client_left", "code", "correlation_id", "decided_locally", "duration_ms", "error",
		"key_id", "level", "method", "msg", "principal", "remote", "request_id", "route", "status", "tenant", "time", "trace_id", "verdict",
	}
	for _, line := range lines {
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(line))); diff != "" {
			t.Errorf("keys: %s", diff)
		}
	}
	good, lost, live := lines[1], lines[3], lines[4]
	if good["route"] != "/v1/jobs" || good["method"] != "POST" || good["status"] != 202.0 || good["tenant"] != tenantID || good["level"] != "INFO" || good["code"] != "" ||
		good["verdict"] != "admitted" || good["decided_locally"] != false || good["address"] != "127.0.0.1" {
		t.Errorf("a good request: %v", good)
	}
	if lost["route"] != "none" || lost["code"] != "not_found" {
		t.Errorf("no route: %v", lost)
	}
	if live["level"] != "DEBUG" {
		t.Errorf("livez: %v", live)
	}
	if strings.Contains(d.log.String(), mark) {
		t.Errorf("what a client sent is in the log: %s", d.log)
	}
}

func TestMetricsHaveNoTenant(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	d.do("POST", "/v1/jobs", d.key("submit"), `{"type":"a"}`)
	d.do("GET", "/v1/jobs/"+jobID, "", "")
	d.do("GET", "/no/such/"+jobID, "", "")
	d.do("BREW", "/no/such/"+jobID, "", "")
	families, err := d.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		if family.GetName() != "forgequeue_http_request_duration_seconds" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["service"] != "gateway" || len(labels) != 4 {
				t.Errorf("labels %v", labels)
			}
			got = append(got, labels["method"]+" "+labels["route"]+" "+labels["status"])
		}
	}
	slices.Sort(got)
	want := []string{"GET /v1/jobs/{id} 401", "GET none 404", "POST /v1/jobs 202", "other none 404"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series: %s", diff)
	}
}

// What is wrong on our side is whole in the log, once, and hidden from the caller.
func TestUnknownErrorIsInternal(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.core.Raw(hop.SubmitJobs.Path, func(w http.ResponseWriter, _ *http.Request) {
		problem.New(problem.InvalidJSON, "core did not like the envelope").Write(w)
	})
	got := d.do("POST", "/v1/jobs", d.key("submit"), `{"type":"a"}`)
	got.refused(t, 500, problem.Internal)
	if strings.Contains(string(got.body), "envelope") {
		t.Errorf("the caller was told: %s", got.body)
	}
	if n := strings.Count(d.log.String(), "core did not like the envelope"); n != 1 {
		t.Errorf("the error is in the log %d times: %s", n, d.log)
	}
	if line := d.log.requests(t)[0]; line["level"] != "ERROR" || line["request_id"] != got.header.Get("X-Request-Id") {
		t.Errorf("line %v", line)
	}
}

func TestOtherHopSecret(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *httpapi.Options) {
		client, err := coreclient.New(coreclient.Options{URL: "http://127.0.0.1:1", Secret: []byte(strings.Repeat("x", 32))})
		if err != nil {
			t.Fatal(err)
		}
		o.Core = client
	})
	d.do("POST", "/v1/jobs", d.key("submit"), `{"type":"a"}`).refused(t, 503, problem.CoreUnavailable)

	refusing := coretest.New(t)
	d = newDoor(t, func(o *httpapi.Options) {
		client, err := coreclient.New(coreclient.Options{URL: refusing.URL, Secret: []byte(strings.Repeat("x", 32)), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		o.Core = client
	})
	d.do("POST", "/v1/jobs", d.key("submit"), `{"type":"a"}`).refused(t, 503, problem.CoreUnavailable)
	if !strings.Contains(d.log.String(), "do both have the same FORGEQUEUE_HOP_SECRET?") {
		t.Errorf("the log does not say what is wrong: %s", d.log)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for _, path := range []string{"/", "/livez"} {
		if got := d.do("GET", path, "", ""); got.status != 200 || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: status %d %s", path, got.status, got.body)
		}
	}
	if got := string(d.do("GET", "/", "", "").body); got != `{"name":"ForgeQueue","api":"/v1","docs":"/docs","health":"/readyz"}` {
		t.Errorf("/: %s", got)
	}
	ready := func(d *door, status int, body string) {
		t.Helper()
		if got := d.do("GET", "/readyz", "", ""); got.status != status || string(got.body) != body {
			t.Errorf("status %d %s, want %d %s", got.status, got.body, status, body)
		}
	}
	ready(d, 200, `{"status":"ok","checks":{"core":"ok","redis":"not configured"}}`)
	ready(d, 200, `{"status":"ok","checks":{"core":"ok","redis":"not configured"}}`)
	if n := len(d.core.Requests(hop.GetReadiness.Path)); n != 1 {
		t.Errorf("core was asked %d times within a second", n)
	}

	late := newDoor(t)
	late.core.On(hop.GetReadiness.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, api.Readiness{Status: "degraded"}) })
	ready(late, 200, `{"status":"degraded","checks":{"core":"degraded","redis":"not configured"}}`)
	late.core.Raw(hop.GetReadiness.Path, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	time.Sleep(1100 * time.Millisecond) // what it was told a moment ago is remembered for a second
	began := time.Now()
	ready(late, 200, `{"status":"degraded","checks":{"core":"down","redis":"not configured"}}`)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a core that hangs held /readyz for %v", took)
	}

	d.server.Drain()
	ready(d, 503, `{"status":"draining","checks":{"core":"ok","redis":"not configured"}}`)

	never := newDoor(t)
	never.core.Raw(hop.GetReadiness.Path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "?") })
	ready(never, 503, `{"status":"starting","checks":{"core":"down","redis":"not configured"}}`)
}

// A panic in a handler is a problem to its caller and costs nobody else.
func TestPanic(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *httpapi.Options) { o.Redis = nil })
	d.do("GET", "/readyz", "", "").refused(t, 500, problem.Internal)
	if got := d.do("GET", "/livez", "", ""); got.status != 200 {
		t.Errorf("after the panic: status %d", got.status)
	}
	line := d.log.requests(t)[0]
	if text, _ := json.Marshal(line["error"]); !strings.Contains(string(text), "panic: ") || !strings.Contains(string(text), "health.go") {
		t.Errorf("the log has no stack: %s", text)
	}
}
