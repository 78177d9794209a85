package console_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/console"
)

const spokenID = "0190a1b2-0000-7000-8000-000000000002"

// spokenAPI has a job in a state, with output until last, null for none.
func spokenAPI(state, last string) *fake {
	return &fake{answers: map[string]string{
		"GET /v1/jobs/" + spokenID + "/explain": `{"state":"` + state + `","because":[],"attempts":[],
			"job":{"id":"` + spokenID + `","type":"t","queue":"q","state":"` + state + `","attempt":1,"max_attempts":3,"epoch":2,"created_at":"2026-11-20T11:50:00Z","output":` + last + `}}`,
	}}
}

// chunk is one of output, as the API gives it; text is JSON's.
func chunk(epoch, seq int, stream, text string, gap bool) string {
	return fmt.Sprintf(`{"id":"%d.%d","stream":%q,"at":"2026-11-20T11:55:00Z","gap":%t,"text":"`, epoch, seq, stream, gap) + text + `"}`
}

func chunks(more bool, all ...string) string {
	return fmt.Sprintf(`{"items":[%s],"truncated":false,"more":%t}`, strings.Join(all, ","), more)
}

// outputAsked are the requests for output among those that the API got.
func outputAsked(f *fake) (asked []string) {
	for _, one := range f.asked {
		if rest, ok := strings.CutPrefix(one, "GET /v1/jobs/"+spokenID+"/output"); ok {
			asked = append(asked, rest)
		}
	}
	return asked
}

// What a job says is text, whatever it is: no tag, no sequence for a terminal, no character that turns other text round. stderr is
// told from stdout by more than a colour, and what is missing is named.
func TestOutputIsText(t *testing.T) {
	t.Parallel()
	f := spokenAPI("running", `"2.3"`)
	f.answers["GET /v1/jobs/"+spokenID+"/output"] = chunks(false,
		chunk(1, 1, "out", `<script>alert(1)</script>\n`, false),
		chunk(1, 2, "out", `\u001b[1;31mred\u001b[0m \u001b]0;title\u0007\u001b]8;;http://evil.example\u001b\\link\u001b]8;;\u001b\\ 10 %\r20 %\r\n`, false),
		chunk(1, 3, "err", `</pre></section>\u202egnp.\u0008\u001b[`, false),
		chunk(2, 1, "out", `again`, false),
		chunk(2, 2, "out", strings.Repeat("x", 16<<10), true),
		chunk(2, 3, "log", `no newline`, false),
	)
	status, text := open(t, f)(http.MethodGet, "/console/jobs/"+spokenID)
	for _, want := range []string{
		`<pre class="said-out"><span>&lt;script&gt;alert(1)&lt;/script&gt;` + "\n</span><span>red link 10 %\n20 %\n</span></pre>",
		`<pre class="said-err"><span>&lt;/pre&gt;&lt;/section&gt;\u202egnp.\u0008</span></pre>`,
		`<p class="quiet claimed">The job was claimed again.</p><pre class="said-out"><span>again</span></pre>`,
		`<p class="quiet gap">Output is missing here.</p><pre class="said-out"><span>xxx`,
		`<pre class="said-log"><span>no newline</span></pre>`,
		`data-last="2.3"`, `data-output="2.3"`, `<a href="/console/jobs/` + spokenID + `/output">Show all as text</a>`,
	} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	if strings.ContainsAny(text, "\x1b\x08\u202e") || strings.Contains(text, "evil.example") || strings.Contains(text, `id="output" hx-morph-skip hidden`) {
		t.Errorf("%s", text)
	}
}

// Of much output the end is shown, after a bounded number of requests.
func TestTheEndOfMuchOutput(t *testing.T) {
	t.Parallel()
	var first, near, large []string
	for i := range 500 {
		first = append(first, chunk(1, i+1, "out", "first", false))
		near = append(near, chunk(3, 4001+i, "out", fmt.Sprintf("near %d\\n", 4001+i), i == 0))
	}
	for i := range 30 {
		large = append(large, chunk(1, i+1, "out", fmt.Sprintf("<%d>", i)+strings.Repeat("y", 16<<10-10), false))
	}
	path := "GET /v1/jobs/" + spokenID + "/output"
	f := spokenAPI("completed", `"3.5000"`)
	f.answers[path] = chunks(true, first...)
	f.answers[path+"?after=3.4000"] = chunks(true, near...)
	f.answers[path+"?after=3.4500"] = chunks(false, chunk(3, 5000, "err", "the end", false))
	status, text := open(t, f)(http.MethodGet, "/console/jobs/"+spokenID)
	if status != http.StatusOK || strings.Contains(text, "first") || strings.Contains(text, "is missing here.</p>") || strings.Count(text, "<span>near ") != 500 ||
		!strings.Contains(text, `<p class="quiet cut">`) || !strings.Contains(text, "the end") || !strings.Contains(text, `data-last="3.5000"`) {
		t.Errorf("%d %s", status, text)
	}
	if got, want := outputAsked(f), []string{"", "?after=3.4000", "?after=3.4500"}; !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}
	f = spokenAPI("completed", `"1.30"`)
	f.answers[path] = chunks(false, large...)
	status, text = open(t, f)(http.MethodGet, "/console/jobs/"+spokenID)
	if status != http.StatusOK || strings.Contains(text, "&lt;17&gt;") || !strings.Contains(text, "&lt;18&gt;") || !strings.Contains(text, "&lt;29&gt;") || !strings.Contains(text, `<p class="quiet cut">`) {
		t.Errorf("%d, %d bytes", status, len(text))
	}
	f = spokenAPI("running", `"1.9000"`)
	f.answers[path] = chunks(true, chunk(1, 9, "out", "always more", false))
	if status, _ := open(t, f)(http.MethodGet, "/console/jobs/"+spokenID); status != http.StatusOK || len(outputAsked(f)) != 5 {
		t.Errorf("%d, asked %q", status, outputAsked(f))
	}
}

// A job without output has no pane, or one that is not seen until its script has something for it, and costs no request. Where the
// output cannot be read the page is there all the same.
func TestAJobWithoutOutput(t *testing.T) {
	t.Parallel()
	const pane, hidden = `id="output"`, `id="output" hx-morph-skip hidden`
	for state, want := range map[string]struct{ pane, hidden bool }{"completed": {false, false}, "queued": {true, true}} {
		f := spokenAPI(state, "null")
		status, text := open(t, f)(http.MethodGet, "/console/jobs/"+spokenID)
		if status != http.StatusOK || strings.Contains(text, pane) != want.pane || strings.Contains(text, hidden) != want.hidden || strings.Contains(text, "data-output=") {
			t.Errorf("%s: %d %s", state, status, text)
		}
		if asked := outputAsked(f); asked != nil {
			t.Errorf("%s: asked %q", state, asked)
		}
	}
	f := spokenAPI("running", `"1.1"`)
	f.answers["GET /v1/jobs/"+spokenID+"/output"] = "503"
	status, text := open(t, f)(http.MethodGet, "/console/jobs/"+spokenID)
	if status != http.StatusOK || !strings.Contains(text, "It cannot be read now.") || !strings.Contains(text, `data-last=""`) || strings.Contains(text, hidden) {
		t.Errorf("%d %s", status, text)
	}
}

// passedOn is the console in front of an API that says what it was asked with.
func passedOn(t *testing.T) func(path string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	made, err := console.New(console.Options{
		Secret: []byte(strings.Repeat("s", 32)),
		Hold:   func(context.Context, string, int64, func()) func() { return func() {} },
	})
	if err != nil {
		t.Fatal(err)
	}
	served := made.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/whoami" {
			_, _ = io.WriteString(w, `{"tenant":"t","user":null,"scopes":["read"],"plan":"p","key_id":"k"}`)
			return
		}
		w.Header().Set("Content-Security-Policy", "sandbox")
		_, _ = fmt.Fprintf(w, "%s %s accept=%q last=%q cookie=%q", r.URL, r.Header.Get("Authorization"), r.Header.Get("Accept"), r.Header.Get("Last-Event-ID"), r.Header.Get("Cookie"))
	}))
	b := browserOf(t, served, "the-key")
	return func(path string, header http.Header) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		maps.Copy(r.Header, header)
		if b.cookie != "" {
			r.Header.Set("Cookie", b.cookie)
		}
		w := httptest.NewRecorder()
		served.ServeHTTP(w, r)
		return w
	}
}

// The stream of a page begins where the page ends, and continues after what its browser had last. Output is passed on as text in a
// sandbox, and to a script as the API has it.
func TestOutputIsPassedOn(t *testing.T) {
	t.Parallel()
	send := passedOn(t)
	const jobs = "/console/jobs/" + spokenID
	for _, one := range []struct {
		path   string
		header http.Header
		want   string
	}{
		{"/events", nil, `/events Bearer the-key accept="" last="" cookie=""`},
		{"/events?after=2.7", nil, `/events Bearer the-key accept="" last="2.7" cookie=""`},
		{"/events?after=2.7&token=x", http.Header{"Last-Event-Id": {"3.1"}}, `/events Bearer the-key accept="" last="3.1" cookie=""`},
		{"/output", http.Header{"Accept": {"text/html"}}, `/output Bearer the-key accept="text/plain" last="" cookie=""`},
		{"/output?after=2.7&x=y", nil, `/output?after=2.7 Bearer the-key accept="" last="" cookie=""`},
	} {
		w := send(jobs+one.path, one.header)
		if got, want := w.Body.String(), "/v1/jobs/"+spokenID+one.want; w.Code != http.StatusOK || got != want {
			t.Errorf("%s: %d %s, want %s", one.path, w.Code, got, want)
		}
		if header := w.Header(); header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Content-Security-Policy") != "sandbox" {
			t.Errorf("%s: %v", one.path, header)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, jobs+"/output", nil)
	w := httptest.NewRecorder()
	made, err := console.New(console.Options{Secret: []byte(strings.Repeat("s", 32))})
	if err != nil {
		t.Fatal(err)
	}
	made.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
	if want := "/console/sign-in?next=" + url.QueryEscape(jobs+"/output"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != want {
		t.Errorf("who is not signed in: %d %s", w.Code, w.Header().Get("Location"))
	}
}
