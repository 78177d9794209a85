package console_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/forgequeue/forgequeue/e2e/browser"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// historySQL gives the last hour and all queues a history as of a shop: quiet, a peak, and half an hour of trouble with mail.
const historySQL = `
INSERT INTO job_stats (tenant_id, queue, grain, at, submitted, started, completed, failed_attempts, dead_letter, cancelled, waiting_ms, running_ms)
SELECT $1, name, 1, date_trunc('minute', now()) - n * interval '1 minute', n_jobs, n_jobs + n_failed, n_jobs - n_dead, n_failed, n_dead, 0,
       n_jobs * (40 + 400 * peak), n_jobs * 180
FROM generate_series(1, 59) AS n,
     LATERAL (SELECT exp(-(((n - 22) / 8.0) ^ 2)) AS peak) AS p,
     LATERAL (SELECT (60 + 15 * sin(n / 3.0) + 150 * peak)::bigint AS n_jobs,
                     (CASE WHEN n < 30 THEN 14 + 6 * sin(n) ELSE 1 END)::bigint AS n_failed, (CASE WHEN n < 30 AND n % 4 = 0 THEN 1 ELSE 0 END)::bigint AS n_dead) AS c,
     unnest(ARRAY['', 'emails']) AS name`

// TestPictures makes the pictures of README and api-docs/console.md: make pictures. That the pages are drawn is part of
// TestConsoleInABrowser, which has a browser and a cluster already.
func TestPictures(t *testing.T) {
	if os.Getenv(browser.ScreenshotsEnv) == "" {
		t.Skipf("only with %s: TestConsoleInABrowser/pictures is the same without pictures", browser.ScreenshotsEnv)
	}
	t.Parallel()
	b := &tab{Tab: browser.New(t)}
	c := stack.NewCluster(t, stack.ClusterOptions{Settings: stack.PushSettings()})
	b.url = c.Gateways[0].URL
	b.draws(c)
}

// draws opens the pages of a shop with an hour of history, in whose mail something is wrong: their charts are drawn.
func (b *tab) draws(c *stack.Cluster) {
	b.Helper()
	shop := openShop(b.T, c)
	b.Do("sign in", chromedp.Navigate(b.url+b.link(shop.tenant.Key)))
	for _, one := range []struct{ name, path, scheme string }{
		{"overview-light", "/console", "light"},
		{"overview-dark", "/console", "dark"},
		{"job-dead-letter", "/console/jobs/" + shop.dead, "light"},
		{"dead-letters", "/console/dead-letters", "dark"},
		{"workflow", "/console/workflows/" + shop.workflow, "light"},
		{"queue", "/console/queues/emails", "dark"},
	} {
		b.Look(one.scheme, 1280)
		b.Do("a low window", chromedp.EmulateViewport(1280, 600))
		b.open(one.path)
		b.Do("one as high as the page", chromedp.EmulateViewport(1280, browser.Evaluate[int64](b.Tab, "its height", `document.documentElement.scrollHeight`)))
		b.Eventually("charts are drawn", `[...document.querySelectorAll("[data-plot]")].every(plot => plot.querySelector("canvas"))`)
		b.Shot(one.name)
	}
	b.Silent()
}

// openShop gives a tenant a history, and things that run, wait and died.
func openShop(t *testing.T, c *stack.Cluster) data {
	t.Helper()
	d := data{tenant: c.NewTenant(t, "shop")}
	d.client = c.Client(t, d.tenant.Key)
	stack.Exec(t.Context(), t, c.DatabaseURL, historySQL, d.tenant.ID)
	for queue, settings := range map[string]api.QueueRequest{
		"emails": {Retry: &api.RetryRequest{BaseMS: new(int64(1000)), CapMS: new(int64(4000))}},
		"images": {}, "invoices": {},
	} {
		if _, err := d.client.PutQueue(t.Context(), queue, settings); err != nil {
			t.Fatal(err)
		}
	}
	for range 40 {
		d.work(t, "images", "thumbnail.make", nil)
		d.work(t, "invoices", "invoice.render", nil)
	}
	for i := range 12 {
		failure := &api.JobError{Type: "SMTPError", Message: "421 too many connections from 10.0.0.7"}
		if i%4 == 3 {
			failure = &api.JobError{Type: "TimeoutError", Message: "no answer from mail-2 within 10 s"}
		}
		d.work(t, "emails", "email.send", failure)
	}
	d.dead = stack.Submit(t, d.client, api.SubmitRequest{
		Type: "email.send", Queue: "emails", Priority: new(9), MaxAttempts: new(3), User: new("ada"), Metadata: map[string]string{"order": "10042"},
		Payload: []byte(`{"to":"ada@example.com","template":"order-confirmed","order":{"id":10042,"items":[{"sku":"A-1","n":2}]}}`),
	})
	for _, ran := range []time.Duration{700 * time.Millisecond, 1200 * time.Millisecond, 400 * time.Millisecond} {
		job := stack.ClaimOne(t, d.client, "worker-1", "emails")
		time.Sleep(ran) // for the timeline
		if _, err := d.client.Fail(t.Context(), job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Error: &api.JobError{
			Type: "SMTPError", Message: "550 mailbox unavailable", Stack: "at send (mail.js:42)\nat run (worker.js:7)",
		}}); err != nil {
			t.Fatal(err)
		}
	}
	step := func(named string) api.SubmitRequest { return api.SubmitRequest{Type: named, Queue: "images"} }
	flow, err := d.client.SubmitWorkflow(t.Context(), client.Workflow().Named("catalog-import").
		Add("fetch", step("catalog.fetch")).Add("parse", step("catalog.parse")).After("fetch").
		Add("images-1", step("thumbnail.make")).After("parse").Add("images-2", step("thumbnail.make")).After("parse").
		Add("prices", step("prices.update")).After("parse").Add("publish", step("catalog.publish")).After("images-1", "images-2", "prices"))
	if err != nil {
		t.Fatal(err)
	}
	d.workflow = flow.ID
	for range 3 { // fetch, parse, and one of the rest
		d.work(t, "images", "", nil)
	}
	stack.ClaimOne(t, d.client, "worker-2", "images")
	for i := range 25 {
		stack.Submit(t, d.client, api.SubmitRequest{Type: []string{"email.send", "email.digest"}[i%2], Queue: "emails"})
	}
	for i := range 4 {
		stack.ClaimOne(t, d.client, fmt.Sprint("worker-", 1+i%3), "emails")
	}
	return d
}

// work has a job done, or ended by an error at its first attempt; without a type one that waits already.
func (d *data) work(t *testing.T, queue, jobType string, failure *api.JobError) {
	t.Helper()
	if jobType != "" {
		stack.Submit(t, d.client, api.SubmitRequest{Type: jobType, Queue: queue, MaxAttempts: new(1)})
	}
	job := stack.ClaimOne(t, d.client, "worker-1", queue)
	var err error
	if failure != nil {
		_, err = d.client.Fail(t.Context(), job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Error: failure})
	} else {
		_, err = d.client.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken})
	}
	if err != nil {
		t.Fatal(err)
	}
}
