package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// A bulk action of one tenant reaches no other one's jobs, and is not there for another.
func TestBulkActionsDoNotMeet(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	acme := c.Client(t, c.NewTenant(t, "acme").Key)
	job := stack.Submit(t, acme, api.SubmitRequest{Type: "mail.send", Queue: queue})
	other := visit(t, c.Gateways[0].URL, c.NewTenant(t, "other").Key)
	for _, do := range []string{"cancel", "run_now"} {
		if status, text := other.post("/console/bulk", "do", do, "queue", queue); status != http.StatusOK || !strings.Contains(text, "0 of 0") {
			t.Errorf("a %s of none: %d %s", do, status, text)
		}
	}
	one, err := acme.Bulk(t.Context(), api.BulkRequest{Action: api.BulkDelete, Filter: api.BulkFilter{Queue: new(queue)}})
	if err != nil {
		t.Fatal(err)
	}
	path := "/console/bulk/" + one.ID
	if status, _ := other.get(path); status != http.StatusNotFound {
		t.Errorf("another's: %d", status)
	}
	if status, _ := other.post(path); status != http.StatusNotFound {
		t.Errorf("another stops it: %d", status)
	}
	if _, text := other.get("/console/bulk"); strings.Contains(text, one.ID) || strings.Contains(text, "Delete") {
		t.Errorf("another's list: %s", text)
	}
	if got := stack.Get(t, acme, job); got.State != api.StateQueued {
		t.Errorf("the job is %s", got.State)
	}
}

// cancelsMany cancels the queued jobs of one queue by the filter of the list.
func (b *tab) cancelsMany(d *data) {
	b.Helper()
	const many = marker + "-many"
	submit := func(delay int64) string {
		return stack.Submit(b.T, d.client, api.SubmitRequest{Type: "report.render", Queue: many, DelayMS: &delay})
	}
	var queued []string
	for range 3 {
		queued = append(queued, submit(0))
	}
	later := submit(3_600_000)
	b.open("/console/jobs?state=queued&queue=" + many)
	b.look("jobs-bulk")
	b.Do("cancel", chromedp.SetValue(chromedp.CSS("#bulk-do"), "cancel"), chromedp.Click(chromedp.CSS(`form[action="/console/bulk/confirm"] button`)), chromedp.WaitVisible(chromedp.CSS(`button[value="cancel"]`)))
	b.Eventually("the dry run", `document.querySelector(".lead").textContent.includes("3 jobs would be cancelled")`)
	b.Do("do it", chromedp.Click(chromedp.CSS(`button[value="cancel"]`)))
	b.Eventually("its progress is followed to its end", `location.pathname.startsWith("/console/bulk/") && document.querySelector("h1")?.textContent.includes("done")`)
	b.Eventually("all are", `document.querySelector(".lead").textContent.includes("3 of 3 cancelled")`)
	b.look("bulk-done")
	for _, id := range queued {
		if job := stack.Get(b.T, d.client, id); job.State != api.StateCancelled {
			b.Errorf("the job is %s", job.State)
		}
	}
	if job := stack.Get(b.T, d.client, later); job.State != api.StateScheduled {
		b.Errorf("the job that the filter is not of is %s", job.State)
	}

	b.open("/console/jobs?queue=" + many + "&state=scheduled")
	b.Do("set the priority", chromedp.SetValue(chromedp.CSS("#bulk-do"), "set_priority"), chromedp.Click(chromedp.CSS(`form[action="/console/bulk/confirm"] button`)), chromedp.WaitVisible(chromedp.CSS("#to")))
	b.look("bulk-confirm-priority")
	b.Do("one that cannot be", chromedp.SendKeys(chromedp.CSS("#to"), "10"), chromedp.Click(chromedp.CSS(`button[value="set_priority"]`)))
	b.Eventually("the refusal in words", `document.querySelector(".refusals")?.textContent.includes("to.priority")`)
	all, err := d.client.Bulks(b.Context(), client.PageRequest{})
	if got := fmt.Sprintf("%d %v %v", len(all.Items), all.Items[0].Action, err); got != "2 cancel <nil>" {
		b.Errorf("the bulk actions: %s", got)
	}
	b.open("/console/bulk")
	b.Eventually("they are listed", `document.querySelectorAll("#live li").length === 2`)
	b.look("bulk-listed")
	b.Silent("400")
}
