package invariants_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/invariants"
)

// serve answers submits, claims and outcomes like a gateway, and "cut" not at all.
func serve(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Idempotency-Key") == "cut":
			panic(http.ErrAbortHandler)
		case strings.HasSuffix(r.URL.Path, "/jobs"):
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, `{"id":"1","state":"queued"}`)
		case strings.HasSuffix(r.URL.Path, "/claims"):
			fmt.Fprintf(w, `{"jobs":[{"id":"1","epoch":1,"attempt":1,"max_attempts":3,"lease_token":"t","payload":{"m":%q}},{"id":"2","epoch":4}]}`,
				invariants.Mark(tenantB, 1))
		case strings.HasSuffix(r.URL.Path, "/complete"):
			fmt.Fprint(w, `{"job_id":"1","state":"completed"}`)
		default:
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"results":[],"code":"lease_lost"}`)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func post(t *testing.T, c *http.Client, url, key, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	if response, err := c.Do(request); err == nil {
		_ = response.Body.Close()
	}
}

// Many goroutines use one recorder, in memory or in a file: the history has every
// request once, with its answer or without one.
func TestRecorder(t *testing.T) {
	t.Parallel()
	url := serve(t)
	name := filepath.Join(t.TempDir(), "events.jsonl")
	inFile, err := invariants.OpenRecorder("file", name)
	if err != nil {
		t.Fatal(err)
	}
	const each = 20
	for _, r := range []*invariants.Recorder{invariants.NewRecorder("memory"), inFile} {
		var group sync.WaitGroup
		for range each {
			group.Go(func() {
				c := r.Client(tenantA, http.DefaultTransport)
				post(t, c, url+"/v1/jobs", "key", `{"payload":{"mark":"`+invariants.Mark(tenantA, 1)+`"}}`)
				post(t, c, url+"/v1/jobs", "cut", `{"payload":1}`)
				post(t, c, url+"/v1/claims", "", `{}`)
				post(t, c, url+"/v1/jobs/1/complete", "", `{"lease_token":"t"}`)
				post(t, c, url+"/v1/jobs/1/fail", "", `{"lease_token":"t"}`)
				post(t, c, url+"/v1/jobs/1/snooze", "cut", `{"lease_token":"t"}`)
				post(t, c, url+"/v1/jobs/1/cancel", "cut", "")
			})
		}
		group.Wait()
		events := r.Events()
		if r == inFile {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if events, err = invariants.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
		h := invariants.Merge(events)
		counts := map[string]int{}
		for _, e := range h.Events {
			counts[fmt.Sprintf("%s %d %s%s %s %d %t %d", e.Op, e.Status, e.Code, e.Kind, e.Job, e.Epoch, e.Mark != "", len(e.Foreign))]++
		}
		for _, want := range []string{
			"submit 202  1 0 true 0", "submit 0   0 false 0",
			"claim 200   0 false 1", "claim 200  1 1 true 0", "claim 200  2 4 false 0",
			"outcome 200 complete 1 0 false 0", "outcome 409 lease_lostfail 1 0 false 0",
			"outcome 0 snooze 1 0 false 0", "cancel 0  1 0 false 0",
		} {
			if counts[want] != each {
				t.Errorf("%s: %d, want %d", want, counts[want], each)
			}
		}
		if len(h.Events) != 9*each {
			t.Errorf("%d events: %v", len(h.Events), counts)
		}
	}
}

// A process that was killed leaves a torn last line, and no other.
func TestTornLines(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "events.jsonl")
	for text, want := range map[string]int{
		"{\"a\":\"x\",\"n\":1,\"op\":\"submit\"}\n{\"a\":\"x\",\"n\":2": 1,
		"{\"a\":\"x\"}\n{\"a\n{\"a\":\"x\"}\n":                          -1,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		events, err := invariants.ReadFile(name)
		if (err != nil) != (want < 0) || (want >= 0 && len(events) != want) {
			t.Errorf("%q: %d events, %v", text, len(events), err)
		}
	}
}
