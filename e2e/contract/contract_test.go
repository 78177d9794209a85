package contract_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/contract"
)

// The check notices what is not as the document has it: or every test that relies
// on it means nothing.
func TestCheckNotices(t *testing.T) {
	t.Parallel()
	document, err := contract.Load("gateway")
	if err != nil {
		t.Fatal(err)
	}
	const (
		whoami = `{"tenant":null,"user":null,"scopes":["read"],"plan":null,"key_id":"k","sessions_ended":0,"tenant_name":null}`
		lost   = `{"type":"/problems/lease_lost","title":"t","status":409,"detail":"d","instance":"/","code":"lease_lost","request_id":"r","retry_after_ms":null,"errors":[],"policies":[]}`
		id     = "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"
	)
	for name, c := range map[string]struct {
		method, path, body string
		status             int
		answer             string
		without            string // a header
		want               string // what the complaint names; empty for none
	}{
		"good":                         {"GET", "/v1/whoami", "", 200, whoami, "", ""},
		"a field is missing":           {"GET", "/v1/whoami", "", 200, strings.Replace(whoami, `"user":null,`, "", 1), "", "user"},
		"a field is new":               {"GET", "/v1/whoami", "", 200, strings.Replace(whoami, `"user"`, `"age":1,"user"`, 1), "", "age"},
		"a field is of another type":   {"GET", "/v1/whoami", "", 200, strings.Replace(whoami, `"k"`, `7`, 1), "", "key_id"},
		"null where there is none":     {"GET", "/v1/whoami", "", 200, strings.Replace(whoami, `"k"`, `null`, 1), "", "key_id"},
		"a word outside its set":       {"GET", "/v1/whoami", "", 200, strings.Replace(whoami, `"read"`, `"fly"`, 1), "", "scopes"},
		"a header is missing":          {"GET", "/v1/whoami", "", 200, whoami, "X-Correlation-Id", "X-Correlation-Id"},
		"a status that is not said":    {"GET", "/v1/whoami", "", 202, whoami, "", "status"},
		"a route that is not said":     {"GET", "/v1/whoareyou", "", 200, whoami, "", "operation"},
		"no such route, and it is 404": {"GET", "/v1/whoareyou", "", 404, lost, "", ""},
		"a code of this route":         {"POST", "/v1/jobs/" + id + "/complete", `{"lease_token":"x"}`, 409, lost, "", ""},
		"a code of another route":      {"POST", "/v1/jobs/" + id + "/cancel", `{}`, 409, lost, "", "code"},
		"accepted, though not allowed": {"PUT", "/v1/queues/q", `{"max_attempts":0}`, 200, `{"name":"q","mode":"pull","paused":false,` +
			`"depth":{"blocked":0,"scheduled":0,"waiting":0,"queued":0,"running":0,"dead_letter":0},"depth_capped":[],"oldest_queued_ms":null,"active_workers":0,"stale_workers":0,"unserved":[],"breaker":null,` +
			`"settings":{"visibility_timeout_ms":1,"max_attempts":0,"retry":{"base_ms":1,"cap_ms":1,"jitter":0,"curve":"linear"},"max_active":null,"max_running":null,"rate_per_second":null,"types":{},"push":null}}`, "", "max_attempts"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
			header := http.Header{"X-Request-Id": {"r"}, "X-Correlation-Id": {"r"}, "Content-Type": {"application/json"}}
			if c.body != "" {
				request.Header.Set("Content-Type", "application/json")
			}
			if strings.HasPrefix(c.answer, `{"type":"/problems`) {
				header.Set("Content-Type", "application/problem+json")
			}
			header.Del(c.without)
			err := document.Check(t.Context(), contract.Exchange{Request: request, Body: []byte(c.body), Status: c.status, Header: header, Answer: []byte(c.answer)})
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("complaint %v, want one of %q", err, c.want)
			}
		})
	}
}

// A transport changes nothing of what passes through it, and leaves answers that are
// no gateway's alone.
func TestTransportIsTransparent(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(server.Close)
	client := &http.Client{Transport: contract.Transport(http.DefaultTransport)}
	response, err := client.Post(server.URL, "text/plain", strings.NewReader("as it was"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || string(text) != "as it was" {
		t.Errorf("%q %v", text, err)
	}
	if found := contract.Violations(); len(found) > 0 {
		t.Errorf("violations: %q", found)
	}
}
