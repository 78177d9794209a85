package console_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/forgequeue/forgequeue/e2e/browser"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// asks is the queue of jobs that wait for an answer: one that there is anyway, as the pictures of pages are of their queues.
const asks = "models"

// newAsking gives a job that waits for a signal.
func newAsking(t *testing.T, c *client.Client) string {
	t.Helper()
	stack.Submit(t, c, api.SubmitRequest{Type: "refund.ask", Queue: asks})
	job := stack.ClaimOne(t, c, marker+"-worker", asks)
	asked := api.WaitRequest{LeaseToken: job.LeaseToken, For: []string{"approved", "rejected"}, TimeoutMS: new(time.Hour.Milliseconds())}
	if _, err := c.ReportWait(t.Context(), job.ID, asked); err != nil {
		t.Fatal(err)
	}
	return job.ID
}

// signalLink is a link for the signal approved of a job, made at a gateway with a key.
func signalLink(t testing.TB, gateway, key, job, title string) string {
	t.Helper()
	body, err := json.Marshal(api.SignalLinkRequest{Name: "approved", Title: title})
	if err != nil {
		t.Fatal(err)
	}
	var link api.SignalLink
	status, text := stack.Call(t, http.MethodPost, gateway+"/v1/jobs/"+job+"/signal-links", key, body)
	if err := json.Unmarshal(text, &link); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	path, ok := strings.CutPrefix(link.URL, gateway)
	if !ok {
		t.Fatalf("the link made at %s is %s", gateway, link.URL)
	}
	return path
}

// A link that one gateway has made is good at another: its reader, who has no key, wakes the job, once, with a comment for its worker.
// Whatever looks at it changes nothing, and it ends with the job and with the key.
func TestSignalLinks(t *testing.T) {
	t.Parallel()
	c := stack.SharedCluster(t)
	tenant := c.NewTenant(t, "acme")
	acme := c.Client(t, tenant.Key)
	key := c.NewKey(t, tenant, time.Now().Add(time.Hour))
	job, other := newAsking(t, acme), newAsking(t, acme)
	path, ofOther := signalLink(t, c.Gateways[0].URL, key, job, "Refund order 1234?"), signalLink(t, c.Gateways[0].URL, key, other, "")
	reader := nobody(t, c.Gateways[1].URL)
	for range 10 {
		if status, text := reader.get(path); status != http.StatusOK || !strings.Contains(text, "Refund order 1234?") || !strings.Contains(text, "Send approved") {
			t.Fatalf("%d %s", status, text)
		}
	}
	if state := stack.Get(t, acme, job).State; state != api.StateWaiting {
		t.Fatalf("looking at the link has made the job %s", state)
	}
	last := path[len(path)-1:]
	if last == "A" {
		last = "B"
	} else {
		last = "A"
	}
	if status, text := reader.post(path[:len(path)-1]+last, "comment", "no"); status != http.StatusGone || !strings.Contains(text, "Ask for a new link") {
		t.Errorf("a changed link: %d %s", status, text)
	}
	for i, want := range []string{">Sent.<", "This was answered before"} {
		if status, text := reader.post(path, "comment", []string{"fine with me", "not at all"}[i]); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d: %d %s", i, status, text)
		}
	}
	if state := stack.Get(t, acme, other).State; state != api.StateWaiting {
		t.Errorf("the link of one job has made another %s", state)
	}
	claimed := stack.ClaimOne(t, acme, marker+"-worker", asks)
	if claimed.ID != job || len(claimed.Signals) != 1 || string(claimed.Signals[0].Data) != `{"comment":"fine with me"}` || claimed.WokenBy == nil || *claimed.WokenBy != api.WokenBySignal {
		t.Errorf("claimed %+v", claimed)
	}
	if _, err := acme.Complete(t.Context(), job, api.CompleteRequest{LeaseToken: claimed.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if status, text := reader.post(path); status != http.StatusConflict || !strings.Contains(text, "The job has ended") {
		t.Errorf("after the job's end: %d %s", status, text)
	}
	if err := c.Client(t, stack.Operator).RevokeKey(t.Context(), strings.Split(key, "_")[2]); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, time.Minute, "the link ends with its key", func() bool {
		status, _ := reader.get(ofOther)
		return status == http.StatusGone
	})
	if status, text := reader.post(ofOther); status != http.StatusGone || stack.Get(t, acme, other).State != api.StateWaiting {
		t.Errorf("after its key was revoked: %d %s", status, text)
	}
}

// signals sends one from a job's page, and one by a link, which needs neither a session nor a script.
func (b *tab) signals(d *data) {
	b.Helper()
	b.open("/console/jobs/" + d.asking)
	b.Do("open the form", chromedp.Click(chromedp.CSS("#signal summary")), chromedp.WaitVisible(chromedp.CSS("#signal-name")))
	b.look("job-signal-form")
	b.Do("data that is no JSON", chromedp.Evaluate[chromedp.Void](`document.querySelector("#signal-name").value = "rejected"`), chromedp.SendKeys(chromedp.CSS("#signal-data"), "no"),
		chromedp.Evaluate[chromedp.Void](`document.activeElement.blur(); window.same = true`))
	b.Do("an update", chromedp.Evaluate[chromedp.Void](`htmx.ajax("GET", location.pathname, { source: "#live", target: "#live", select: "#live", swap: "outerMorph" }).then(() => { window.updated = true; })`))
	b.Eventually("what was typed outlasts it", `window.updated && window.same && document.querySelector("#signal").open && document.querySelector("#signal-data").value === "no" && document.querySelector("#signal-name").value === "rejected"`)
	b.Do("send it", chromedp.Click(chromedp.CSS(`button[value="signal"]`)))
	b.Eventually("the refusal in words", `document.querySelector(".problem")?.textContent.includes("not JSON")`)
	path := signalLink(b.T, b.url, d.tenant.Key, d.asking, "Refund order 1234, 49.90 €?")
	b.open(path)
	b.look("signal-link")
	b.Do("a comment, and the button", chromedp.SendKeys(chromedp.CSS("#comment"), "fine with me"), chromedp.Click(chromedp.CSS(".door button")))
	b.Eventually("it is sent", `document.querySelector(".note")?.textContent.trim() === "Sent." && document.querySelector("form") === null`)
	b.look("signal-link-sent")
	b.open(path)
	b.Do("again", chromedp.Click(chromedp.CSS(".door button")))
	b.Eventually("it says so", `document.querySelector(".note")?.textContent.includes("answered before")`)
	b.open(path + "x")
	b.look("signal-link-ended")
	if asked := browser.Evaluate[bool](b.Tab, "a form or a sign-in", `document.querySelector("form") !== null || document.body.textContent.includes("Sign in")`); asked {
		b.Error("the page of a link that is not valid asks for something")
	}
	if job := stack.Get(b.T, d.client, d.asking); job.State != api.StateQueued {
		b.Errorf("the job is %s", job.State)
	}
	b.open("/console/jobs/" + d.asking)
	b.Eventually("it waits for a worker now", `document.querySelector("h1 .state").textContent.trim() === "queued" && document.querySelector("#signal") === null`)
	b.Silent("400", "410")
}
