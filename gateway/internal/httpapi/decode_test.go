package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// nested is n arrays in each other.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestHostileJSON(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	key := d.key("submit")
	tests := []struct {
		name, body string
		code       problem.Code
		field      string // named in errors
	}{
		{"white space only", " \n\t", problem.InvalidJSON, ""},
		{"half an object", `{"type":"a"`, problem.InvalidJSON, ""},
		{"trailing data", `{"type":"a"} {}`, problem.InvalidJSON, ""},
		{"trailing garbage", `{"type":"a"}x`, problem.InvalidJSON, ""},
		{"trailing comma", `{"type":"a",}`, problem.InvalidJSON, ""},
		{"comment", `{"type":"a"/**/}`, problem.InvalidJSON, ""},
		{"byte order mark", "\ufeff" + `{"type":"a"}`, problem.InvalidJSON, ""},
		{"single quotes", `{'type':'a'}`, problem.InvalidJSON, ""},
		{"NaN", `{"type":"a","payload":NaN}`, problem.InvalidJSON, ""},
		{"leading zero", `{"type":"a","payload":01}`, problem.InvalidJSON, ""},
		{"raw NUL", "{\"type\":\"a\x00\"}", problem.InvalidJSON, ""},
		{"raw newline", "{\"type\":\"a\n\"}", problem.InvalidJSON, ""},
		{"invalid UTF-8", "{\"type\":\"a\",\"payload\":\"\xff\"}", problem.InvalidJSON, ""},
		{"lone surrogate", `{"type":"a","payload":"\ud800"}`, problem.InvalidJSON, ""},
		{"reversed surrogates", `{"type":"a","payload":"\udc00\ud800"}`, problem.InvalidJSON, ""},
		{"duplicate member", `{"type":"a","type":"b"}`, problem.InvalidJSON, "type"},
		{"duplicate by escape", `{"type":"a","\u0074ype":"b"}`, problem.InvalidJSON, "type"},
		{"duplicate in the payload", `{"type":"a","payload":{"x":[{"y":1,"y":2}]}}`, problem.InvalidJSON, "payload.x[0].y"},
		{"duplicate in metadata", `{"type":"a","metadata":{"k":"1","k":"2"}}`, problem.InvalidJSON, "metadata.k"},
		{"33 levels", `{"type":"a","payload":` + nested(32) + `}`, problem.InvalidJSON, ""},
		{"a million levels", strings.Repeat("[", 1_000_000), problem.InvalidJSON, ""},
		{"a million objects", strings.Repeat(`{"a":`, 200_000), problem.InvalidJSON, ""},
		{"not an object", `[]`, problem.InvalidRequest, "body"},
		{"a string", `"type"`, problem.InvalidRequest, "body"},
		{"null", `null`, problem.InvalidRequest, "body"},
		{"wrong case", `{"Type":"a"}`, problem.UnknownField, "Type"},
		{"unknown", `{"type":"a","prio":1}`, problem.UnknownField, "prio"},
		{"unknown inside", `{"type":"a","retry":{"base":1}}`, problem.UnknownField, "retry.base"},
		{"a Go field's name", `{"type":"a","RunAt":null}`, problem.UnknownField, "RunAt"},
		{"number for a string", `{"type":1}`, problem.InvalidRequest, "type"},
		{"string for a number", `{"type":"a","priority":"5"}`, problem.InvalidRequest, "priority"},
		{"fraction for a whole", `{"type":"a","priority":1.5}`, problem.InvalidRequest, "priority"},
		{"huge whole", `{"type":"a","delay_ms":99999999999999999999}`, problem.InvalidRequest, "delay_ms"},
		{"huge fraction", `{"type":"a","retry":{"jitter":1e400}}`, problem.InvalidRequest, "retry.jitter"},
		{"object for a list", `{"type":"a","tags":{}}`, problem.InvalidRequest, "tags"},
		{"number in a list", `{"type":"a","tags":["x",1]}`, problem.InvalidRequest, "tags[1]"},
		{"list for an object", `{"type":"a","metadata":[]}`, problem.InvalidRequest, "metadata"},
		{"number in metadata", `{"type":"a","metadata":{"k":1}}`, problem.InvalidRequest, "metadata.k"},
		{"no time", `{"type":"a","run_at":"tomorrow"}`, problem.InvalidRequest, "run_at"},
		{"number for a time", `{"type":"a","run_at":1764000000}`, problem.InvalidRequest, "run_at"},
		{"date only", `{"type":"a","deadline":"2026-11-20"}`, problem.InvalidRequest, "deadline"},
		{"NUL in a name", `{"type":"a\u0000"}`, problem.InvalidRequest, "type"},
		{"both times", `{"type":"a","run_at":"2026-11-20T12:00:00Z","delay_ms":1}`, problem.InvalidRequest, "run_at"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := d.do("POST", "/v1/jobs", key, test.body).refused(t, 400, test.code)
			if test.field == "" {
				return
			}
			if len(p.Errors) != 1 || p.Errors[0].Field != test.field {
				t.Errorf("errors %v, want one for %s", p.Errors, test.field)
			}
		})
	}
	t.Cleanup(func() {
		if n := len(d.core.Requests(hop.SubmitJobs.Path)); n != 0 {
			t.Errorf("%d bad requests reached core", n)
		}
	})
}

func TestEmptyBody(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	p := d.do("POST", "/v1/jobs", d.key("submit"), "").refused(t, 400, problem.InvalidJSON)
	if !strings.Contains(p.Detail, "empty") {
		t.Errorf("detail %q does not help", p.Detail)
	}
}

// What is odd but allowed reaches core unchanged, but for space between tokens.
func TestPayloadArrivesAsSent(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	key := d.key("submit")
	for _, payload := range []string{
		`1e400`, `-0`, `1.0`, `9007199254740993`, `"<a href='x'>&amp;\u2028"`, `"\u0000"`, `"\ud83d\ude00"`, "\"\u2028\"", `"\/"`,
		`{"b":1,"a":2}`, nested(31), `""`, `false`, `{"Type":1,"type":2}`, `[null]`,
	} {
		if got := d.do("POST", "/v1/jobs", key, `{"type":"a","payload":`+payload+`}`); got.status != http.StatusAccepted {
			t.Errorf("%s: status %d %s", payload, got.status, got.body)
			continue
		}
		if got := string(d.submitted().Jobs[0].Payload); got != payload {
			t.Errorf("payload %s became %s", payload, got)
		}
	}
}

func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	got := d.do("POST", "/v1/jobs", d.key("submit"), `{"type":"a","queue":null,"payload":null,"priority":null,"run_at":null,"delay_ms":null,
		"deadline":null,"max_attempts":null,"timeout_ms":null,"retry":null,"tags":null,"user":null,"metadata":null,"dedupe_key":null}`)
	if got.status != http.StatusAccepted {
		t.Fatalf("status %d %s", got.status, got.body)
	}
	if sent := string(d.core.Requests(hop.SubmitJobs.Path)[0].Items[0].Request); !strings.Contains(sent, `"jobs":[{"type":"a"}]`) {
		t.Errorf("core got %s", sent)
	}
	d.do("POST", "/v1/jobs", d.key("submit"), `{"type":"a","retry":{"base_ms":null},"metadata":{"k":null,"l":"1"}}`)
	job := d.submitted().Jobs[0]
	if _, there := job.Metadata["k"]; there || job.Metadata["l"] != "1" || job.Retry.BaseMS != nil {
		t.Errorf("core got %+v", job)
	}
}

func TestBodyForm(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	key := d.key("submit")
	const good = `{"type":"a"}`
	tests := []struct {
		name    string
		headers []string
		status  int
	}{
		{"json", []string{"Content-Type", "application/json"}, 202},
		{"parameters", []string{"Content-Type", `Application/JSON; charset="utf-8"`}, 202},
		{"identity", []string{"Content-Type", "application/json", "Content-Encoding", "identity"}, 202},
		{"absent", nil, 415},
		{"text", []string{"Content-Type", "text/plain"}, 415},
		{"form", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415},
		{"like json", []string{"Content-Type", "application/problem+json"}, 415},
		{"twice", []string{"Content-Type", "application/json", "Content-Type", "application/json"}, 415},
		{"empty", []string{"Content-Type", ""}, 415},
		{"malformed", []string{"Content-Type", "application/json; ="}, 415},
		{"gzip", []string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, 415},
	}
	for _, test := range tests {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/jobs", strings.NewReader(good))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+key)
		for i := 0; i < len(test.headers); i += 2 {
			request.Header.Add(test.headers[i], test.headers[i+1])
		}
		got := d.send(request)
		if got.status != test.status {
			t.Errorf("%s: status %d, want %d", test.name, got.status, test.status)
		}
		if test.status == 415 {
			got.refused(t, 415, problem.UnsupportedMediaType)
		}
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	submit, work := d.key("submit"), d.key("work")
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	small := strings.Repeat(" ", api.MaxBody)
	for _, test := range []struct{ name, path, key, body, field string }{
		{"body", "/v1/jobs", submit, small + `{}`, ""},
		{"payload", "/v1/jobs", submit, `{"type":"a","payload":` + text(api.MaxPayload+1) + `}`, "payload"},
		{"result", "/v1/jobs/" + jobID + "/complete", work, `{"lease_token":"t","result":` + text(api.MaxResult+1) + `}`, "result"},
		{"batch", "/v1/jobs/batch", submit, strings.Repeat(" ", api.MaxBatchBody) + `{}`, ""},
		{"outcomes", "/v1/outcomes", work, strings.Repeat(" ", api.MaxBatchBody) + `{}`, ""},
		{"heartbeat", "/v1/workers/w/heartbeat", work, strings.Repeat(" ", api.MaxBatchBody) + `{}`, ""},
	} {
		p := d.do("POST", test.path, test.key, test.body).refused(t, 413, problem.PayloadTooLarge)
		if test.field != "" && (len(p.Errors) != 1 || p.Errors[0].Field != test.field) {
			t.Errorf("%s: errors %v", test.name, p.Errors)
		}
	}
	d.accept()
	if got := d.do("POST", "/v1/jobs", submit, `{"type":"a","payload":`+text(api.MaxPayload)+`}`); got.status != 202 {
		t.Errorf("the largest payload: status %d", got.status)
	}
}

// A chunked body says no length: the bound must hold while it is read.
func TestChunkedBodyIsBounded(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("submit")
	send := func(size int) answer {
		body := strings.Repeat(" ", size-len(`{}`)) + `{}`
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/jobs", io.NopCloser(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+key)
		request.Header.Set("Content-Type", "application/json")
		return d.send(request)
	}
	send(api.MaxBody).refused(t, 400, problem.InvalidRequest) // read whole: it lacks a type
	send(api.MaxBody+1).refused(t, 413, problem.PayloadTooLarge)
}

// A bomb stays packed: the gateway does not unpack anything.
func TestCompressedBodyIsNotUnpacked(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	var bomb bytes.Buffer
	packer := gzip.NewWriter(&bomb)
	_, _ = packer.Write(bytes.Repeat([]byte(" "), 9<<20))
	_ = packer.Close()
	got := d.do("POST", "/v1/jobs", d.key("submit"), bomb.String(), "Content-Encoding", "gzip")
	got.refused(t, 415, problem.UnsupportedMediaType)
}

func TestLongNamesAreNotRepeatedWhole(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	got := d.do("POST", "/v1/jobs", d.key("submit"), `{"type":"a","`+strings.Repeat("é", 100_000)+`":1}`)
	got.refused(t, 400, problem.UnknownField)
	if len(got.body) > 2000 {
		t.Errorf("the problem has %d bytes", len(got.body))
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read")
	for _, test := range []struct{ path, key, field string }{
		{"/v1/jobs/" + jobID + "?x=1", key, "x"},
		{"/v1/whoami?Page_size=1", key, "Page_size"},
		{"/v1/admin/tenants?page_size=1&page_size=1", operatorKey, "page_size"},
		{"/v1/admin/tenants?page_size=0", operatorKey, "page_size"},
		{"/v1/admin/tenants?page_size=201", operatorKey, "page_size"},
		{"/v1/admin/tenants?page_size=", operatorKey, "page_size"},
		{"/v1/admin/tenants?page_size=+5", operatorKey, "page_size"},
		{"/v1/admin/tenants?page_size=5e0", operatorKey, "page_size"},
		{"/v1/admin/tenants?page_token=", operatorKey, "page_token"},
		{"/v1/admin/tenants?page_token=" + strings.Repeat("x", 1025), operatorKey, "page_token"},
		{"/v1/admin/tenants?page_size=%zz", operatorKey, ""},
		{"/v1/admin/tenants?a=1;b=2", operatorKey, ""},
		{"/livez?x", "", "x"},
	} {
		p := d.do("GET", test.path, test.key, "").refused(t, 400, problem.InvalidRequest)
		if test.field != "" && (len(p.Errors) != 1 || p.Errors[0].Field != test.field) {
			t.Errorf("%s: errors %v", test.path, p.Errors)
		}
	}
}

// A body is an object, for each route that takes one: null is none, not {}, which for
// a queue would be "all settings as by default".
func TestNullIsNoBody(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key(api.Scopes()...)
	tried := 0
	for route, rule := range table {
		method, path := example(route)
		if method == http.MethodGet || method == http.MethodDelete {
			continue
		}
		caller := key
		if rule.operator {
			caller = operatorKey
		}
		for _, body := range []string{`null`, " \r\n\tnull\n", `[]`, `"{}"`, `0`, `true`} {
			tried++
			p := d.do(method, path, caller, body).refused(t, 400, problem.InvalidRequest)
			if p.Detail != "body: must be a JSON object" || len(p.Errors) != 1 || p.Errors[0].Field != "body" {
				t.Errorf("%s %q: %s %v", route, body, p.Detail, p.Errors)
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d bodies were tried", tried)
	}
}
