package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/forgequeue/forgequeue/e2e/browser"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// says appends to the output of a job that is running.
func says(t testing.TB, gateway, key string, job *api.ClaimedJob, chunks ...api.OutputChunk) {
	t.Helper()
	body, err := json.Marshal(api.OutputRequest{LeaseToken: job.LeaseToken, Chunks: chunks})
	if err != nil {
		t.Fatal(err)
	}
	if status, text := stack.Call(t, http.MethodPost, gateway+"/v1/jobs/"+job.ID+"/output", key, body); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, text)
	}
}

// spoken gives a job that has said something.
func (d *data) spoken(t *testing.T, c *stack.Cluster) string {
	t.Helper()
	const lane = "said"
	stack.Submit(t, d.client, api.SubmitRequest{Type: "report.build", Queue: lane})
	job := stack.ClaimOne(t, d.client, marker+"-worker", lane)
	says(t, c.Gateways[0].URL, d.tenant.Key, &job, api.OutputChunk{Seq: 1, Stream: api.OutputOut, Text: "page 1 of 3\n"}, api.OutputChunk{Seq: 2, Stream: api.OutputErr, Text: "page 2 is empty\n"})
	if _, err := d.client.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	return job.ID
}

// fragile is a proxy whose connections can be cut. It notes after what streams go on.
type fragile struct {
	*httptest.Server

	mu    sync.Mutex
	after []string
}

func newFragile(t *testing.T, gateway string) *fragile {
	t.Helper()
	target, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	f := &fragile{}
	transport := &http.Transport{} // the usual one is held to the document of the API
	t.Cleanup(transport.CloseIdleConnections)
	f.Server = httptest.NewServer(&httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		if after := r.In.Header.Get("Last-Event-ID"); after != "" {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.after = append(f.after, after)
		}
	}})
	t.Cleanup(f.Close)
	return f
}

// chunksAre says whether a page shows these chunks, each once and in this order.
func chunksAre(texts []string) string {
	all, _ := json.Marshal(texts) // of strings
	return `JSON.stringify([...document.querySelectorAll("#output .output span")].map(e => e.textContent)) === JSON.stringify(` + string(all) + `)`
}

// hears follows what a job says: without a reload, each chunk once, also over a connection that is cut and in a page that has no
// stream; and it is text whatever it is.
func (b *tab) hears(d *data) {
	b.Helper()
	const lane = "live-lane" // there is one more queue in the overview otherwise, under the list of keys
	id := stack.Submit(b.T, d.client, api.SubmitRequest{Type: "watched", Queue: lane})
	proxy := newFragile(b.T, b.url)
	here := &tab{Tab: b.Another(), url: proxy.URL, axe: b.axe}
	other := &tab{Tab: b.Another(), url: proxy.URL}
	here.open("/console/jobs/" + id)
	here.Eventually("no output is seen", `document.querySelector("#output").hidden`)
	here.Do("mark the page", chromedp.Evaluate[chromedp.Void](`window.same = true`))
	here.Eventually("it has the stream", `navigator.locks.query().then(all => all.held.length === 1)`)
	job := stack.ClaimOne(b.T, d.client, marker+"-worker", lane)
	seq, shown := int64(0), []string{}
	say := func(stream, text, as string) {
		b.Helper()
		seq++
		says(b.T, b.url, d.tenant.Key, &job, api.OutputChunk{Seq: seq, Stream: stream, Text: text})
		shown = append(shown, as)
	}
	say(api.OutputOut, "<img src=x onerror=\"window.harmed=1\"></pre>\x1b[31mred\x1b[0m\u202e\b\r\n", "<img src=x onerror=\"window.harmed=1\"></pre>red\\u202e\\u0008\n")
	say(api.OutputErr, "page 2 is empty", "page 2 is empty")
	here.Eventually("what it says", chunksAre(shown)+` && !document.querySelector("#output").hidden && document.querySelector("#output img") === null && window.harmed === undefined`)
	here.Eventually("stderr by itself", `document.querySelector("#output .said-err").textContent === "page 2 is empty"`)
	other.open("/console/jobs/" + id)
	other.Eventually("a page that is opened later has it", chunksAre(shown))
	epoch, _, _ := strings.Cut(browser.Evaluate[string](here.Tab, "the last chunk", `document.querySelector("#output").dataset.last`), ".")

	proxy.CloseClientConnections()
	say(api.OutputOut, "after it was cut\n", "after it was cut\n")
	here.Eventually("it continues", chunksAre(shown))
	stack.Eventually(b.T, 30*time.Second, "after what the browser had", func() bool {
		proxy.mu.Lock()
		defer proxy.mu.Unlock()
		return slices.Contains(proxy.after, epoch+".2")
	})
	other.Eventually("in the other page too", chunksAre(shown))
	for i := range 60 {
		line := fmt.Sprintf("line %d\n", i)
		say(api.OutputOut, line, line)
	}
	here.Eventually("its end is seen", chunksAre(shown)+` && (pane => pane.scrollTop > 0 && pane.scrollTop + pane.clientHeight > pane.scrollHeight - 5)(document.querySelector("#output .output"))`)
	here.Do("scroll up", chromedp.Evaluate[chromedp.Void](`document.querySelector("#output .output").scrollTop = 40`))
	say(api.OutputLog, strings.Repeat("long", 4<<10), strings.Repeat("long", 4<<10))
	here.Eventually("what is read stays", chunksAre(shown)+` && document.querySelector("#output .output").scrollTop === 40`)
	here.Do("an update", chromedp.Evaluate[chromedp.Void](`htmx.ajax("GET", location.pathname, { source: "#live", target: "#live", select: "#live", swap: "outerMorph" }).then(() => { window.updated = true; })`))
	here.Eventually("an update changes nothing of it", `window.updated && document.querySelector("#output .output").scrollTop === 40 && `+chunksAre(shown))
	here.look("job-output")

	say(api.OutputOut, "done", "done")
	if _, err := d.client.Complete(b.Context(), id, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
		b.Fatal(err)
	}
	for _, one := range []*tab{here, other} {
		one.Eventually("its end", `document.querySelector("h1 .state").textContent.trim() === "completed" && `+chunksAre(shown))
	}
	here.Eventually("in the same page", `window.same === true`)
	here.Do("a reload", chromedp.Reload())
	here.Eventually("the same", `window.same === undefined && document.readyState === "complete" && `+chunksAre(shown))
	here.Eventually("all of it as text", `fetch(document.querySelector("#output a").href).then(r => r.text().then(text => text.endsWith("done") && text.includes("\x1b[31mred") &&
		r.headers.get("Content-Type") === "text/plain; charset=utf-8" && r.headers.get("Content-Security-Policy") === "sandbox" && r.headers.get("X-Content-Type-Options") === "nosniff"))`)
	here.Do("much more", chromedp.Evaluate[chromedp.Void](`for (let i = 1; i <= 5000; i++) jobOutput.append({ id: "9000000." + i, stream: "out", text: i + "\n", gap: i === 4000 })`))
	here.Eventually("what is kept in the page is bounded", `(all => all.length === 2000 && all[1999].textContent === "5000\n" && all[0].textContent === "3001\n")(document.querySelectorAll("#output .output span")) &&
		document.querySelectorAll("#output .cut").length === 1 && document.querySelectorAll("#output .gap").length === 1`)
	for _, one := range []*tab{here, other} {
		one.Silent("net::ERR_")
		one.Do("leave", chromedp.Navigate("about:blank"))
	}
}
