package examples_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// screenshotsEnv names a folder for screenshots, for people to look at; without it there are none.
const screenshotsEnv = "FORGEQUEUE_SCREENSHOTS"

// The documentation in a real browser: both documents open, a job is submitted from
// the page with a key, and the page's policy and console have nothing to complain of.
func TestDocsInABrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t) // takes as much CPU as a test: there is one
	t.Run("with core", func(t *testing.T) { b.withCore(t) })
	t.Run("without core", func(t *testing.T) { b.withoutCore(t) })
}

func (b *browser) withCore(t *testing.T) {
	t.Helper()
	s := stack.Up(t, stack.Folder(t))
	b.T = t
	b.do("open", chromedp.Navigate(s.Gateway+"/docs"), chromedp.WaitVisible(chromedp.CSS("#operations-Jobs-submitJob")))
	b.shot("1-public")
	b.eventually("both documents are to choose from", `[...document.querySelectorAll("#select option")].map(o => o.text).join() === "Public API (gateway),Internal API (core)"`)

	b.submitAJob(s.APIKey)
	b.streamsEvents(s)
	b.looksWell()
	b.filters()

	b.do("core's document",
		chromedp.Evaluate[chromedp.Void](`(() => { const s = document.querySelector("#select");
			Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, "value").set.call(s, "docs/core.json");
			s.dispatchEvent(new Event("change", {bubbles: true})); })()`),
		chromedp.WaitVisible(chromedp.CSS("#operations-Workers-claims")),
		chromedp.Click(chromedp.CSS("#operations-Workers-claims button.opblock-summary-control")),
		chromedp.WaitVisible(chromedp.CSS("#operations-Workers-claims .opblock-body .responses-wrapper")))
	b.eventually("core's calls cannot be tried", `document.querySelectorAll(".try-out__btn").length === 0`)
	b.shot("4-core")
	b.silent()
}

// withoutCore: people can still read.
func (b *browser) withoutCore(t *testing.T) {
	t.Helper()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	c.Cores[0].Stop()
	b.T = t
	for _, name := range []string{"gateway", "core"} {
		b.do("open", chromedp.Navigate("about:blank"),
			chromedp.Navigate(c.Gateways[0].URL+"/docs?urls.primaryName="+map[string]string{
				"gateway": "Public%20API%20(gateway)", "core": "Internal%20API%20(core)",
			}[name]),
			chromedp.WaitVisible(chromedp.CSS(".opblock-tag-section .opblock")))
	}
	b.shot("5-without-core")
	b.silent()
}

// submitAJob authorizes with a key, and sends the first example of a job.
func (b *browser) submitAJob(key string) {
	b.Helper()
	b.do("authorize",
		chromedp.Click(chromedp.CSS(".auth-wrapper .btn.authorize")),
		chromedp.WaitVisible(chromedp.CSS(".auth-container input")),
		chromedp.SendKeys(chromedp.CSS(".auth-container input"), key),
		chromedp.Click(chromedp.CSS(".auth-container .btn.authorize")),
		chromedp.Click(chromedp.CSS(".auth-container .btn-done")),
		chromedp.WaitNotPresent(chromedp.CSS(".dialog-ux")))
	const operation = "#operations-Jobs-submitJob "
	b.do("open the operation",
		chromedp.Click(chromedp.CSS(operation+"button.opblock-summary-control")),
		chromedp.WaitVisible(chromedp.CSS(operation+".try-out__btn")))
	b.shot("2-operation")
	b.do("try it out",
		chromedp.Click(chromedp.CSS(operation+".try-out__btn")),
		chromedp.WaitVisible(chromedp.CSS(operation+"textarea.body-param__text")),
		chromedp.SendKeys(chromedp.CSS(operation+`tr[data-param-name="Prefer"] input`), "wait=20"),
		chromedp.Click(chromedp.CSS(operation+".execute")),
		chromedp.WaitVisible(chromedp.CSS(operation+".live-responses-table .response-col_status")))
	b.shot("3-submitted")
	answer, err := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS(operation+".live-responses-table")))
	if err != nil {
		b.Fatal(err)
	}
	if !strings.Contains(answer, "200") || !strings.Contains(answer, `"state": "completed"`) || !strings.Contains(answer, `"result"`) {
		b.Errorf("the page shows of a submitted job:\n%s", answer)
	}
}

// streamsEvents follows a job in the page, without the key.
func (b *browser) streamsEvents(s *stack.Stack) {
	b.Helper()
	c := s.Client(b.T)
	id := stack.Submit(b.T, c, api.SubmitRequest{Type: "watched", Queue: "browser"})
	var token api.EventsToken
	if status, text := stack.Call(b.T, http.MethodPost, s.Gateway+"/v1/jobs/"+id+"/events-token", s.APIKey, nil); json.Unmarshal(text, &token) != nil || token.Token == "" {
		b.Fatalf("%d %s", status, text)
	}
	b.do("open a stream", chromedp.Evaluate[chromedp.Void](`(() => { window.told = [];
		const events = new EventSource("v1/jobs/`+id+`/events?token=`+token.Token+`");
		for (const name of ["job", "end", "again"]) events.addEventListener(name, e => {
			const job = JSON.parse(e.data); window.told.push(name + " " + job.state + " " + (job.progress ? job.progress.percent : "-"));
			if (name !== "job") events.close(); }); })()`))
	b.eventually("the job as it is", `window.told.join() === "job queued -"`)
	job := stack.ClaimOne(b.T, c, "browser-worker", "browser")
	b.eventually("its claim", `window.told.includes("job running -")`)
	percent := 40.0
	if _, err := c.Heartbeat(b.ctx, "browser-worker", []api.Lease{{JobID: job.ID, LeaseToken: job.LeaseToken, Progress: &api.Progress{Percent: &percent}}}); err != nil {
		b.Fatal(err)
	}
	b.eventually("its progress", `window.told.includes("job running 40")`)
	if _, err := c.Complete(b.ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
		b.Fatal(err)
	}
	b.eventually("its end", `window.told.at(-1).startsWith("end completed")`)
}

// looksWell looks at an open operation, in wide and narrow windows, light and dark.
func (b *browser) looksWell() {
	b.Helper()
	const operation = "#operations-Jobs-submitJob "
	b.eventually("problems are one table", `[...document.querySelectorAll("`+operation+`.responses-wrapper .response[data-code]")].every(r => Number(r.dataset.code) < 400) &&
		document.querySelectorAll("`+operation+`.problems tr").length >= 7 &&
		document.querySelector("`+operation+`.problems a[href='problems/active_cap_reached']") !== null`)
	for _, language := range []string{"Go", "Python", "JavaScript", "curl"} {
		b.eventually("a sample in "+language, `(() => { const tab = [...document.querySelectorAll("`+operation+`.languages button")].find(b => b.textContent === "`+language+`");
			if (!tab) return false;
			tab.click();
			return tab.getAttribute("aria-selected") === "true" && document.querySelector("`+operation+`.samples pre").textContent.includes({curl: "curl ", Go: "package main", Python: "urllib", JavaScript: "await fetch"}["`+language+`"]); })()`)
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 400} {
			b.do("a window of another size", chromedp.EmulateViewport(width, 1800))
			if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			}); err != nil {
				b.Fatal(err)
			}
			b.eventually(fmt.Sprint("nothing is wider than a window of ", width), `document.documentElement.scrollWidth <= window.innerWidth`)
			b.shot(fmt.Sprint("looks-", scheme, "-", width))
		}
	}
	b.do("as before", chromedp.EmulateViewport(1280, 1800))
}

// filters finds operations by words.
func (b *browser) filters() {
	b.Helper()
	const shown = `[...document.querySelectorAll(".opblock")].filter(o => o.offsetParent !== null).map(o => o.id).join()`
	b.do("filter", chromedp.SendKeys(chromedp.CSS(".find input"), "redrives cancel"))
	b.eventually("one operation is left", shown+` === "operations-Dead letters-cancelRedrive" || `+shown+` === "operations-Dead_letters-cancelRedrive"`)
	b.do("filter nothing", chromedp.Evaluate[chromedp.Void](`(() => { const i = document.querySelector(".find input");
		Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(i, "");
		i.dispatchEvent(new Event("input", {bubbles: true})); })()`))
	b.eventually("in the order of use", shown+`.startsWith("operations-Jobs-submitJob,operations-Jobs-getJob,operations-Jobs-listJobs")`)
}

// browser is a tab of a browser of the test's own.
type browser struct {
	*testing.T // the part that runs
	ctx        context.Context
	shots      string

	mu         sync.Mutex
	complaints []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	b := &browser{T: t, shots: os.Getenv(screenshotsEnv)}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browserProgram(t)), chromedp.WindowSize(1280, 1800), chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	allocator, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	b.ctx = ctx
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// browserProgram finds a browser. CI has one: see .ci/install.
func browserProgram(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return stack.Need(t, "chromium")
}

// hear notes what the console and the policy complain of.
func (b *browser) hear(event any) {
	said := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			said = fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			said = "console: "
			for _, arg := range e.Args {
				said += string(arg.Value) + " "
			}
		}
	case *runtime.EventExceptionThrown:
		said = "exception: " + e.ExceptionDetails.Text
	}
	if said != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.complaints = append(b.complaints, said)
	}
}

// silent checks that there were no complaints.
func (b *browser) silent() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, complaint := range b.complaints {
		b.Error("the browser complains of ", complaint)
	}
}

// do runs steps within a time that is enough for all of them.
func (b *browser) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, stack.Patience(time.Minute))
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.shot("failed")
		b.Fatalf("%s: %v; complaints: %q", what, err, b.complaints)
	}
}

func (b *browser) eventually(what, expression string) {
	b.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Poll[chromedp.Void](expression)); err != nil {
		b.shot("failed")
		b.Fatalf("%s: %v", what, err)
	}
}

// shot keeps what the page looks like.
func (b *browser) shot(name string) {
	b.Helper()
	if b.shots == "" {
		return
	}
	image, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Logf("no screenshot %s: %v", name, err)
		return
	}
	if contentType := http.DetectContentType(image); contentType != "image/png" {
		b.Errorf("the screenshot %s is %s", name, contentType)
	}
	if err := os.WriteFile(filepath.Join(b.shots, name+".png"), image, 0o600); err != nil {
		b.Error(err)
	}
}
