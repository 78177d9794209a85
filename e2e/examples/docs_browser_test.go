package examples_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/forgequeue/forgequeue/e2e/browser"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// The documentation in a real browser: both documents open, a job is submitted from
// the page with a key, and the page's policy and console have nothing to complain of.
func TestDocsInABrowser(t *testing.T) {
	t.Parallel()
	b := docsTab{browser.New(t)} // takes as much CPU as a test: there is one
	t.Run("with core", func(t *testing.T) { b.withCore(t) })
	t.Run("without core", func(t *testing.T) { b.withoutCore(t) })
}

func (b docsTab) withCore(t *testing.T) {
	t.Helper()
	s := stack.Up(t, stack.Folder(t))
	b.T = t
	b.Do("open", chromedp.Navigate(s.Gateway+"/docs"), chromedp.WaitVisible(chromedp.CSS("#operations-Jobs-submitJob")))
	b.Shot("1-public")
	b.Eventually("both documents are to choose from", `[...document.querySelectorAll("#select option")].map(o => o.text).join() === "Public API (gateway),Internal API (core)"`)

	if _, err := s.Client(t).PutType(b.Ctx, "docs.mail", api.JobTypeRequest{
		Description: "Sends a mail.", PayloadSchema: json.RawMessage(`{"type":"object","required":["to"],"properties":{"to":{"$ref":"#/$defs/address"}},"$defs":{"address":{"type":"string"}}}`),
		Examples: []json.RawMessage{json.RawMessage(`{"to":"ada@example.com"}`)},
	}); err != nil {
		t.Fatal(err)
	}
	b.submitAJob(s.APIKey)
	b.submitsAType()
	b.streamsEvents(s)
	b.looksWell()
	b.filters()

	b.Do("core's document",
		chromedp.Evaluate[chromedp.Void](`(() => { const s = document.querySelector("#select");
			Object.getOwnPropertyDescriptor(HTMLSelectElement.prototype, "value").set.call(s, "docs/core.json");
			s.dispatchEvent(new Event("change", {bubbles: true})); })()`),
		chromedp.WaitVisible(chromedp.CSS("#operations-Workers-claimJobs")),
		chromedp.Click(chromedp.CSS("#operations-Workers-claimJobs button.opblock-summary-control")),
		chromedp.WaitVisible(chromedp.CSS("#operations-Workers-claimJobs .opblock-body .responses-wrapper")))
	b.Eventually("core's calls cannot be tried", `document.querySelectorAll(".try-out__btn").length === 0`)
	b.Shot("4-core")
	b.Silent()
}

// withoutCore: people can still read.
func (b docsTab) withoutCore(t *testing.T) {
	t.Helper()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	c.Cores[0].Stop()
	b.T = t
	for _, name := range []string{"gateway", "core"} {
		b.Do("open", chromedp.Navigate("about:blank"),
			chromedp.Navigate(c.Gateways[0].URL+"/docs?urls.primaryName="+map[string]string{
				"gateway": "Public%20API%20(gateway)", "core": "Internal%20API%20(core)",
			}[name]),
			chromedp.WaitVisible(chromedp.CSS(".opblock-tag-section .opblock")))
	}
	b.Shot("5-without-core")
	b.Silent()
}

// submitAJob authorizes with a key, and sends the first example of a job.
func (b docsTab) submitAJob(key string) {
	b.Helper()
	b.Do("authorize",
		chromedp.Click(chromedp.CSS(".auth-wrapper .btn.authorize")),
		chromedp.WaitVisible(chromedp.CSS(".auth-container input")),
		chromedp.SendKeys(chromedp.CSS(".auth-container input"), key),
		chromedp.Click(chromedp.CSS(".auth-container .btn.authorize")),
		chromedp.Click(chromedp.CSS(".auth-container .btn-done")),
		chromedp.WaitNotPresent(chromedp.CSS(".dialog-ux")))
	const operation = "#operations-Jobs-submitJob "
	b.Do("open the operation",
		chromedp.Click(chromedp.CSS(operation+"button.opblock-summary-control")),
		chromedp.WaitVisible(chromedp.CSS(operation+".try-out__btn")))
	b.Shot("2-operation")
	b.Do("try it out",
		chromedp.Click(chromedp.CSS(operation+".try-out__btn")),
		chromedp.WaitVisible(chromedp.CSS(operation+"textarea.body-param__text")),
		chromedp.SendKeys(chromedp.CSS(operation+`tr[data-param-name="Prefer"] input`), "wait=20"),
		chromedp.Click(chromedp.CSS(operation+".execute")),
		chromedp.WaitVisible(chromedp.CSS(operation+".live-responses-table .response-col_status")))
	b.Shot("3-submitted")
	answer, err := chromedp.Run(b.Ctx, chromedp.Text(chromedp.CSS(operation+".live-responses-table")))
	if err != nil {
		b.Fatal(err)
	}
	if !strings.Contains(answer, "200") || !strings.Contains(answer, `"state": "completed"`) || !strings.Contains(answer, `"result"`) {
		b.Errorf("the page shows of a submitted job:\n%s", answer)
	}
}

// submitsAType finds the operation of the tenant's type, which came with the key, and sends its example.
func (b docsTab) submitsAType() {
	b.Helper()
	const operation = `#operations-Your_job_types-submit_0_docs_mail `
	b.Do("open the type's operation",
		chromedp.WaitVisible(chromedp.CSS(operation+"button.opblock-summary-control")),
		chromedp.Click(chromedp.CSS(operation+"button.opblock-summary-control")),
		chromedp.WaitVisible(chromedp.CSS(operation+".try-out__btn")))
	b.Shot("2-type")
	b.Do("try it out",
		chromedp.Click(chromedp.CSS(operation+".try-out__btn")),
		chromedp.WaitVisible(chromedp.CSS(operation+"textarea.body-param__text")),
		chromedp.Click(chromedp.CSS(operation+".execute")),
		chromedp.WaitVisible(chromedp.CSS(operation+".live-responses-table .response-col_status")))
	answer, err := chromedp.Run(b.Ctx, chromedp.Text(chromedp.CSS(operation+".live-responses-table")))
	if err != nil {
		b.Fatal(err)
	}
	if !strings.Contains(answer, "202") || !strings.Contains(answer, `"type": "docs.mail"`) {
		b.Errorf("the page shows of a submitted type:\n%s", answer)
	}
}

// streamsEvents follows a job in the page, without the key.
func (b docsTab) streamsEvents(s *stack.Stack) {
	b.Helper()
	c := s.Client(b.T)
	id := stack.Submit(b.T, c, api.SubmitRequest{Type: "watched", Queue: "browser"})
	var token api.EventsToken
	if status, text := stack.Call(b.T, http.MethodPost, s.Gateway+"/v1/jobs/"+id+"/events-token", s.APIKey, nil); json.Unmarshal(text, &token) != nil || token.Token == "" {
		b.Fatalf("%d %s", status, text)
	}
	b.Do("open a stream", chromedp.Evaluate[chromedp.Void](`(() => { window.told = [];
		const events = new EventSource("v1/jobs/`+id+`/events?token=`+token.Token+`");
		for (const name of ["job", "end", "again"]) events.addEventListener(name, e => {
			const job = JSON.parse(e.data); window.told.push(name + " " + job.state + " " + (job.progress ? job.progress.percent : "-"));
			if (name !== "job") events.close(); }); })()`))
	b.Eventually("the job as it is", `window.told.join() === "job queued -"`)
	job := stack.ClaimOne(b.T, c, "browser-worker", "browser")
	b.Eventually("its claim", `window.told.includes("job running -")`)
	percent := 40.0
	if _, err := c.Heartbeat(b.Ctx, "browser-worker", []api.Lease{{JobID: job.ID, LeaseToken: job.LeaseToken, Progress: &api.Progress{Percent: &percent}}}); err != nil {
		b.Fatal(err)
	}
	b.Eventually("its progress", `window.told.includes("job running 40")`)
	if _, err := c.Complete(b.Ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
		b.Fatal(err)
	}
	b.Eventually("its end", `window.told.at(-1).startsWith("end completed")`)
}

// looksWell looks at an open operation, in wide and narrow windows, light and dark.
func (b docsTab) looksWell() {
	b.Helper()
	const operation = "#operations-Jobs-submitJob "
	b.Eventually("problems are one table", `[...document.querySelectorAll("`+operation+`.responses-wrapper .response[data-code]")].every(r => Number(r.dataset.code) < 400) &&
		document.querySelectorAll("`+operation+`.problems tr").length >= 7 &&
		document.querySelector("`+operation+`.problems a[href='problems/active_cap_reached']") !== null`)
	for _, language := range []string{"Go", "Python", "JavaScript", "curl"} {
		b.Eventually("a sample in "+language, `(() => { const tab = [...document.querySelectorAll("`+operation+`.languages button")].find(b => b.textContent === "`+language+`");
			if (!tab) return false;
			tab.click();
			return tab.getAttribute("aria-selected") === "true" && document.querySelector("`+operation+`.samples pre").textContent.includes({curl: "curl ", Go: "package main", Python: "urllib", JavaScript: "await fetch"}["`+language+`"]); })()`)
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 400} {
			b.Look(scheme, width)
			b.Eventually(fmt.Sprint("nothing is wider than a window of ", width), `document.documentElement.scrollWidth <= window.innerWidth`)
			b.Shot(fmt.Sprint("looks-", scheme, "-", width))
		}
	}
	b.Do("as before", chromedp.EmulateViewport(1280, 1800))
}

// filters finds operations by words.
func (b docsTab) filters() {
	b.Helper()
	const shown = `[...document.querySelectorAll(".opblock")].filter(o => o.offsetParent !== null).map(o => o.id).join()`
	b.Do("filter", chromedp.SendKeys(chromedp.CSS(".find input"), "redrives cancel"))
	b.Eventually("one operation is left", shown+` === "operations-Dead letters-cancelRedrive" || `+shown+` === "operations-Dead_letters-cancelRedrive"`)
	b.Do("filter nothing", chromedp.Evaluate[chromedp.Void](`(() => { const i = document.querySelector(".find input");
		Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(i, "");
		i.dispatchEvent(new Event("input", {bubbles: true})); })()`))
	b.Eventually("in the order of use", shown+`.includes("operations-Jobs-submitJob,operations-Jobs-getJob,operations-Jobs-listJobs")`)
}

// docsTab is a tab with the documentation.
type docsTab struct{ *browser.Tab }
