package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// signalLink is a link to the page for a signal of jobID, made by the API with a key: its path, and the key's id.
func (d *door) signalLink(body string) (path, id string) {
	d.t.Helper()
	key := d.keyWith(func(k *hop.KeyRecord) { id, k.Scopes = k.KeyID, []string{api.ScopeSubmit} })
	var link api.SignalLink
	d.do(http.MethodPost, "/v1/jobs/"+jobID+"/signal-links", key, body).into(d.t, &link)
	path, ok := strings.CutPrefix(link.URL, d.url)
	if !ok || !strings.HasPrefix(path, "/console/signals/") {
		d.t.Fatalf("the link is %q", link.URL)
	}
	return path, id
}

// wantPage checks that an answer is the page of a link, for a visitor without a session: nothing of it gets out, and it signs nobody in.
func (a answer) wantPage(t *testing.T, what string, status int, texts ...string) {
	t.Helper()
	text := string(a.body)
	if a.status != status {
		t.Errorf("%s: %d, want %d: %s", what, a.status, status, text)
	}
	for name, want := range map[string]string{"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Set-Cookie": "", "Location": ""} {
		if got := a.header.Get(name); got != want {
			t.Errorf("%s: %s is %q", what, name, got)
		}
	}
	for _, want := range append(texts, `<meta name="robots" content="noindex">`, `<body class="outside">`) {
		if !strings.Contains(text, want) {
			t.Errorf("%s: no %q in %s", what, want, text)
		}
	}
	for _, never := range []string{"/console/sign-in", "API key", `name="form"`} {
		if strings.Contains(text, never) {
			t.Errorf("%s: %q in %s", what, never, text)
		}
	}
}

// The page of a link asks, and sends by its button alone, once. It needs no key, no session and no script, and says no secret.
func TestSignalLinkPage(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	d.watched(api.StateWaiting)
	sent := d.signalled()
	path, keyID := d.signalLink(`{"name":"approved","title":"Refund <b>1234</b>?","expires_ms":86400000}`)
	token := strings.TrimPrefix(path, "/console/signals/")
	for _, cookie := range []string{"", d.signIn(d.key("read")), "forgequeue-console=abc"} {
		for range 3 {
			got := d.do(http.MethodGet, path, "", "", "Cookie", cookie)
			got.wantPage(t, "read", http.StatusOK, "<h1 dir=\"auto\">Refund &lt;b&gt;1234&lt;/b&gt;?</h1>", "<code>approved</code>", "<code>"+jobID+"</code>", "Good until</dt><dd><time datetime=", `<form method="post">`, `maxlength="2000"`, ">Send approved</button>")
			if text := string(got.body); strings.Contains(text, token) || strings.Count(text, "<button") != 1 {
				t.Errorf("the page is %s", text)
			}
			if got := d.do(http.MethodHead, path, "", "", "Cookie", cookie); got.status != http.StatusOK || len(got.body) != 0 {
				t.Errorf("HEAD: %d %s", got.status, got.body)
			}
		}
	}
	if n := sent.Load(); n != 0 {
		t.Fatalf("reading it has sent %d signals", n)
	}
	stranger := d.signIn(d.key("read"))
	got := d.form(path, stranger, []string{"comment", " fine\r\nwith <me> ", "name", "rejected", "job_id", otherJob, "token", "t"}, "Origin", "null")
	got.wantPage(t, "sent", http.StatusOK, ">Sent.<")
	d.do(http.MethodPost, path, "", "").wantPage(t, "again, by curl -X POST", http.StatusOK, "This was answered before: nothing has changed.")
	d.form(path, "", nil, "Origin", "https://mail.example", "Sec-Fetch-Site", "cross-site").wantPage(t, "again, from a page of a mail", http.StatusOK, "This was answered before")
	if text := string(got.body); strings.Contains(text, "<form") {
		t.Errorf("there is still a form: %s", text)
	}
	all := d.core.Requests(hop.SignalJob.Path)
	for i, want := range []string{`{"comment":"fine\nwith \u003cme\u003e"}`, "", ""} {
		item := all[i].Items[0]
		var got hop.SignalJobRequest
		if err := json.Unmarshal(item.Request, &got); err != nil || string(got.Signal.Data) != want || item.Principal.KeyID != keyID {
			t.Errorf("%d: core got %s for %+v, want the data %s: %v", i, item.Request, item.Principal, want, err)
		}
	}
	if len(all) != 3 {
		t.Errorf("core got %d signals", len(all))
	}
	d.mustNotLog(t, token, url.PathEscape(token))
	for _, route := range []string{"/console/signals/{token}", "/v1/signal-links/{token}"} {
		if !strings.Contains(d.log.String(), `"route":"`+route+`"`) {
			t.Errorf("%s is not in the log", route)
		}
	}
}

const otherJob = "0199f0a4-7c1e-7000-8000-00000000aaaa"

// Nothing but a whole link that is still good sends anything, and a link sends what it was made for.
func TestSignalLinkPageIsNotForged(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	d.watched(api.StateWaiting)
	sent := d.signalled()
	path, keyID := d.signalLink(`{"name":"approved"}`)
	token := strings.TrimPrefix(path, "/console/signals/")
	refused := func(what, token string) {
		t.Helper()
		for _, got := range []answer{d.do(http.MethodGet, "/console/signals/"+token, "", ""), d.form("/console/signals/"+token, "", []string{"comment", "c"})} {
			got.wantPage(t, what, http.StatusGone, "This link is not valid", "Ask for a new link.")
			if text := string(got.body); strings.Contains(text, "<form") || strings.Contains(text, jobID) {
				t.Errorf("%s: %s", what, text)
			}
		}
	}
	for i := range token {
		other := []byte(token)
		if other[i] == 'A' {
			other[i] = 'B'
		} else {
			other[i] = 'A'
		}
		refused(fmt.Sprint("with another character at ", i), string(other))
	}
	link := auth.SignalLink{KeyID: keyID, Job: otherJob, Name: "approved", Title: "t", Expires: time.Now().Add(time.Hour).UnixMilli()}
	_, signature, _ := strings.Cut(token, ".")
	said, others, _ := strings.Cut(d.auth.SignalToken(link), ".")
	mine, _, _ := strings.Cut(token, ".")
	refused("of another job, with the signature of this one", said+"."+signature)
	refused("of this job, with the signature of another", mine+"."+others)
	link.Job, link.Expires = jobID, time.Now().UnixMilli()-1
	refused("expired", d.auth.SignalToken(link))
	for what, token := range map[string]string{"cut": mine, "with a slash": "a%2Fb", "with a zero": "a%00b", "not UTF-8": "%ff", "very long": strings.Repeat("a", 8000)} {
		refused(what, token)
	}
	if n := sent.Load(); n != 0 {
		t.Errorf("%d signals were sent", n)
	}
	d.do(http.MethodPost, path, "", "").wantPage(t, "the link itself", http.StatusOK, ">Sent.<")
	d.core.RevokeKey(keyID)
	d.auth.Forget(keyID)
	refused("of a revoked key", token)
	if n := sent.Load(); n != 1 {
		t.Errorf("%d signals were sent", n)
	}
}

// What a link cannot do is said on its page; what may work another time can be sent again, and what was written is kept.
func TestSignalLinkPageRefuses(t *testing.T) {
	t.Parallel()
	d := newConsole(t)
	d.watched(api.StateWaiting)
	sent := d.signalled()
	path, _ := d.signalLink(`{"name":"approved","title":"Refund?"}`)
	const form = `<form method="post">`
	long := strings.Repeat("é", 2001)
	d.form(path, "", []string{"comment", long}).wantPage(t, "a long comment", http.StatusBadRequest, "longer than 2000 characters", form, ">"+long+"</textarea>")
	d.do(http.MethodPost, path, "", `{"data":{"comment":"lost"}}`).wantPage(t, "JSON", http.StatusBadRequest, "JSON is for POST /v1/signal-links/TOKEN", form)
	d.form(path, "", []string{"comment", strings.Repeat("a", 2<<20)}).wantPage(t, "a form of megabytes", http.StatusRequestEntityTooLarge, form)
	if n := sent.Load(); n != 0 {
		t.Errorf("%d signals were sent", n)
	}
	for code, want := range map[problem.Code][]string{
		problem.JobTerminal:     {"The job has ended. Nothing was sent."},
		problem.NotFound:        {"There is no such job any more. Nothing was sent."},
		problem.CoreUnavailable: {form, "a &lt;comment&gt;</textarea>"},
	} {
		d.core.On(hop.SignalJob.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(code, "core's words") })
		got := d.form(path, "", []string{"comment", "a <comment>"})
		got.wantPage(t, string(code), problem.New(code, "").Status, append(want, "Refund?", `role="alert"`)...)
		if strings.Contains(string(got.body), form) != (code == problem.CoreUnavailable) {
			t.Errorf("%s: %s", code, got.body)
		}
	}
	d.form(path, "", []string{"comment", "x"}, "Content-Type", "multipart/form-data; boundary=b").wantPage(t, "another form", http.StatusBadRequest, form)
	if got := d.do(http.MethodPut, path, "", ""); got.status != http.StatusMethodNotAllowed && got.status != http.StatusNotFound {
		t.Errorf("PUT: %d", got.status)
	}
}

// The token is in no span: neither of the page nor of what it asks the API.
func TestSpansWithoutSignalTokens(t *testing.T) {
	t.Parallel()
	recorder, provider := recording()
	d := newConsole(t, tracedBy(provider))
	d.signalled()
	token := d.signalToken()
	d.do(http.MethodGet, "/console/signals/"+token, "", "").wantPage(t, "traced", http.StatusOK)
	d.do(http.MethodPost, "/v1/signal-links/"+token, "", "")
	eventually(t, "the spans to end", func() bool { return len(recorder.Ended()) >= 3 })
	for _, span := range recorder.Ended() {
		for name, value := range attributes(span) {
			if strings.Contains(value, token) {
				t.Errorf("%s: %s: %s", span.Name(), name, value)
			}
		}
		if name := span.Name(); !strings.HasSuffix(name, "/{token}") {
			t.Errorf("a span is called %q", name)
		}
	}
}
