package console_test

import (
	"fmt"

	"github.com/chromedp/chromedp"

	"github.com/forgequeue/forgequeue/e2e/browser"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Eight pages of running jobs are seen at once: all of them go on, as over HTTP/1.1 a browser has six connections to a
// server and only one page may keep one. Two pages of the same job hear of it from one stream.
func (b *tab) opensEightPages(c *stack.Cluster, d *data) {
	b.Helper()
	const pages, lane = 8, "eight-pages"
	var jobs []api.ClaimedJob
	for range pages - 1 {
		stack.Submit(b.T, d.client, api.SubmitRequest{Type: "watched", Queue: lane})
		jobs = append(jobs, stack.ClaimOne(b.T, d.client, "eight-pages-worker", lane))
	}
	jobs = append(jobs, jobs[0])
	var tabs []*tab
	for i, job := range jobs {
		one := &tab{Tab: b.Another(), url: b.url}
		one.open("/console/jobs/" + job.ID)
		one.Eventually(fmt.Sprintf("page %d is seen", i+1), `document.visibilityState === "visible" && document.querySelector("#live")?.dataset.events`)
		one.Do("listen", chromedp.Evaluate[chromedp.Void](`new BroadcastChannel("forgequeue-events").onmessage = (e) => { window.heard = e.data; }`))
		tabs = append(tabs, one)
	}
	tabs[0].Eventually("the browser has a stream", `navigator.locks.query().then(all => all.held.length === 1)`)
	if open := c.Gateways[0].Metric("forgequeue_event_streams"); open != 1 {
		b.Errorf("%v streams are open", open)
	}
	for i, one := range tabs {
		if status := browser.Evaluate[int](one.Tab, "a request", `fetch("/console/session").then(r => r.status)`); status != 200 {
			b.Errorf("page %d: a request is answered %d", i+1, status)
		}
	}
	report := func(job api.ClaimedJob, message string) {
		b.Helper()
		if _, err := d.client.Heartbeat(b.Context(), "eight-pages-worker", []api.Lease{{JobID: job.ID, LeaseToken: job.LeaseToken, Progress: &api.Progress{Message: &message}}}); err != nil {
			b.Fatal(err)
		}
	}
	for i, job := range jobs[:pages-1] {
		report(job, fmt.Sprintf("step %d", i))
	}
	for i, one := range tabs {
		one.Eventually(fmt.Sprintf("page %d shows what has changed", i+1), fmt.Sprintf(`document.body.textContent.includes("step %d")`, i%(pages-1)))
	}
	tabs[pages-1].Eventually("the other page of the same job is told", `window.heard?.includes("`+jobs[0].ID+`")`)
	// The page that has the stream is closed: another one takes over.
	tabs[0].Do("leave", chromedp.Navigate("about:blank"))
	tabs[1].Eventually("another page has the stream", `navigator.locks.query().then(all => all.held.length === 1)`)
	for _, one := range tabs {
		one.Silent()
	}
}
