package httpapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// forgeries are headers by which a client might try to be somebody else.
func forgeries() []string {
	const mark = "forged-mark"
	return []string{
		"X-Tenant-Id: " + mark, "x-tenant-id: " + mark, "X_Tenant_Id: " + mark, "X.Tenant.Id: " + mark, "X-Tenant: " + mark,
		"X-User-Id: " + mark, "X-User: " + mark, "X_User: " + mark, "X-Scopes: " + mark, "X-Principal: operator",
		"X-Forwarded-For: " + mark, "X-Forwarded-User: " + mark, "X-Forwarded-Host: " + mark, "X-Forwarded-Proto: " + mark,
		"Forwarded: for=" + mark, "X-Real-IP: " + mark, "X-Original-URL: /v1/admin/tenants", "X-Rewrite-URL: /v1/admin/tenants",
		"X-HTTP-Method-Override: DELETE", "Forgequeue-Assertion: v1 t=1 s=" + mark, "forgequeue-assertion: v1 t=1 s=" + mark,
		"Forgequeue_Assertion: " + mark, "Forgequeue-Timeout-Ms: 1", "Forgequeue-Time: 1", "X-Request-Id: " + mark,
		"X-Tenant-Id: " + mark + "\r\nX-Tenant-Id: " + mark, "Connection: X-Tenant-Id", "Connection: Authorization",
		"Host-Override: " + mark, "X-Authorization: Bearer " + operatorKey, "Proxy-Authorization: Bearer " + operatorKey,
		"Authorization_: Bearer " + operatorKey, "Cookie: key=" + operatorKey, "Via: " + mark, "True-Client-IP: " + mark,
	}
}

// raw sends bytes as they are and reads one answer.
func raw(t *testing.T, base, text string) answer {
	t.Helper()
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := connection.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(connection), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(response.Body)
	return answer{response.StatusCode, response.Header, body.Bytes()}
}

func TestForgedHeadersChangeNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	key := d.key("submit")
	const body = `{"type":"a"}`
	send := func(extra string) answer {
		return raw(t, d.url, fmt.Sprintf("POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
			key, len(body), extra, body))
	}
	if got := send(""); got.status != http.StatusAccepted {
		t.Fatalf("status %d %s", got.status, got.body)
	}
	plain := d.core.Requests(hop.SubmitJobs.Path)[0]
	for _, forgery := range forgeries() {
		told := send(forgery + "\r\n")
		if told.status != http.StatusAccepted {
			t.Errorf("%s: status %d %s", forgery, told.status, told.body)
			continue
		}
		all := d.core.Requests(hop.SubmitJobs.Path)
		got := all[len(all)-1]
		if diff := cmp.Diff(plain.Items[0].Principal, got.Items[0].Principal); diff != "" {
			t.Errorf("%s changed the principal: %s", forgery, diff)
		}
		ours := cmpopts.IgnoreMapEntries(func(name string, _ []string) bool {
			return name == "Forgequeue-Assertion" || name == "Forgequeue-Timeout-Ms" || name == "Content-Length"
		})
		if diff := cmp.Diff(plain.Header, got.Header, ours); diff != "" {
			t.Errorf("%s changed the headers of the hop: %s", forgery, diff)
		}
		if bytes.Contains(got.Body, []byte("forged-mark")) || strings.Contains(fmt.Sprint(got.Header, told.header), "forged-mark") {
			t.Errorf("%s went through", forgery)
		}
	}
	if strings.Contains(d.log.String(), "forged-mark") || strings.Contains(d.log.String(), key) {
		t.Error("a forged header or a key is in the log")
	}
}

func TestForgedHeadersOpenNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for _, forgery := range forgeries() {
		if told := raw(t, d.url, "GET /v1/admin/tenants HTTP/1.1\r\nHost: x\r\n"+forgery+"\r\n\r\n"); told.status != http.StatusUnauthorized {
			t.Errorf("%s: status %d %s", forgery, told.status, told.body)
		}
	}
}

func TestIDsOfTheRequest(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	key := d.key("submit")
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	tests := []struct {
		name, header, value, correlation, trace string
	}{
		{"correlation", "X-Correlation-Id", "order 17", "order 17", ""},
		{"correlation too long", "X-Correlation-Id", strings.Repeat("x", 129), "", ""},
		{"correlation not ASCII", "X-Correlation-Id", "é", "", ""},
		{"correlation empty", "X-Correlation-Id", "", "", ""},
		{"trace", "Traceparent", trace, "", trace},
		{"later version", "Traceparent", "01" + trace[2:], "", "01" + trace[2:]},
		{"version ff", "Traceparent", "ff" + trace[2:], "", ""},
		{"upper case", "Traceparent", strings.ToUpper(trace), "", ""},
		{"no trace id", "Traceparent", "00-" + strings.Repeat("0", 32) + trace[35:], "", ""},
		{"no parent id", "Traceparent", trace[:36] + strings.Repeat("0", 16) + "-01", "", ""},
		{"cut", "Traceparent", trace[:54], "", ""},
		{"nonsense", "Traceparent", "x", "", ""},
	}
	for _, test := range tests {
		got := d.do("POST", "/v1/jobs", key, `{"type":"a"}`, test.header, test.value, "X-Request-Id", "mine")
		all := d.core.Requests(hop.SubmitJobs.Path)
		item := all[len(all)-1].Items[0]
		id := got.header.Get("X-Request-Id")
		want := test.correlation
		if want == "" {
			want = id
		}
		if len(id) != 36 || item.RequestID != id {
			t.Errorf("%s: request id %q, core got %q", test.name, id, item.RequestID)
		}
		if got.header.Get("X-Correlation-Id") != want || item.CorrelationID != want {
			t.Errorf("%s: correlation id %q, core got %q, want %q", test.name, got.header.Get("X-Correlation-Id"), item.CorrelationID, want)
		}
		if item.Traceparent != test.trace {
			t.Errorf("%s: core got the trace %q", test.name, item.Traceparent)
		}
	}
	twice := d.do("POST", "/v1/jobs", key, `{"type":"a"}`, "X-Correlation-Id", "a", "X-Correlation-Id", "b")
	if got := twice.header.Get("X-Correlation-Id"); got == "a" || got == "b" {
		t.Errorf("one of two correlation ids was taken: %q", got)
	}
}

func TestHeadersTooLarge(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read")
	d.do("GET", "/v1/whoami", key, "", "X-Big", strings.Repeat("x", api.MaxHeaders)).refused(t, 431, problem.HeadersTooLarge)
	var many []string
	for i := range 200 {
		many = append(many, fmt.Sprintf("X-Many-%d", i), strings.Repeat("x", 100))
	}
	d.do("GET", "/v1/whoami", key, "", many...).refused(t, 431, problem.HeadersTooLarge)
	d.do("GET", "/"+strings.Repeat("x", api.MaxHeaders), "", "").refused(t, 431, problem.HeadersTooLarge)
	if got := d.do("GET", "/v1/whoami", key, "", "X-Big", strings.Repeat("x", api.MaxHeaders-2000)); got.status != 200 {
		t.Errorf("headers of almost 16 KiB: status %d", got.status)
	}
}

func TestNoSuchRouteOrMethod(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	for _, path := range []string{"/v1", "/v1/", "/v1/jobs/", "/V1/jobs", "/v1//jobs", "/v1/jobs/" + jobID + "/", "/v1/jobs/a/b/c", "/metrics", "/debug/pprof/", "/internal/v1/submits", "/v1/jobs/..%2f..%2fmetrics/complete/x", "/%2e%2e/livez"} {
		d.do("POST", path, "", "").refused(t, 404, problem.NotFound)
	}
	for _, test := range []struct{ method, path, allow string }{
		{"DELETE", "/v1/jobs", "GET, HEAD, POST"},
		{"DELETE", "/v1/queues", "GET, HEAD"},
		{"GET", "/v1/dead-letters/redrive", "POST"},
		{"PUT", "/v1/jobs/" + jobID, "GET, HEAD, PATCH, DELETE"},
		{"POST", "/livez", "GET, HEAD"},
		{"GET", "/v1/claims", "POST"},
		{"POST", "/v1/admin/plans/p", "GET, HEAD, PUT"},
		{"BREW", "/v1/jobs", "GET, HEAD, POST"},
	} {
		got := d.do(test.method, test.path, "", "")
		got.refused(t, 405, problem.MethodNotAllowed)
		if allow := got.header.Get("Allow"); allow != test.allow {
			t.Errorf("%s %s: Allow %q, want %q", test.method, test.path, allow, test.allow)
		}
	}
}

func TestOperatorsSeeWhatARequestHasCost(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.core.On(hop.CreateTenant.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Tenant{ID: tenantID, Name: "acme"})
	})
	form := regexp.MustCompile(`^decode;dur=[0-9.]+, core;dur=[0-9.]+, encode;dur=[0-9.]+$`)
	got := d.do("POST", "/v1/admin/tenants", operatorKey, `{"name":"acme"}`).header.Get("Server-Timing")
	if !form.MatchString(got) || strings.Contains(got, "core;dur=0,") {
		t.Errorf("Server-Timing: %s", got)
	}
	d.core.On(hop.ListQueues.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Page[api.Queue]{Items: []api.Queue{}})
	})
	if got := d.do("GET", "/v1/queues", d.key("manage", "read"), "").header.Get("Server-Timing"); got != "" {
		t.Errorf("a tenant gets Server-Timing: %s", got)
	}
}
