package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/forgequeue/forgequeue/e2e/browser"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// axeSum is of testdata/axe.min.js: axe-core 4.14.1 (MPL-2.0), as its package on npm has it.
const axeSum = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"

// tab is a browser's, signed in to the console.
type tab struct {
	*browser.Tab

	url, axe string
	looks    int
}

// The console in a real browser: every page with something on it, in both colours, narrow and wide; what its buttons do;
// that it follows what happens; and its keys.
func TestConsoleInABrowser(t *testing.T) {
	t.Parallel()
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(axe); hex.EncodeToString(sum[:]) != axeSum {
		t.Fatalf("testdata/axe.min.js has the SHA-256 %x", sum)
	}
	b := &tab{Tab: browser.New(t), axe: string(axe)}                               // takes as much CPU as a test: there is one
	c := stack.NewCluster(t, stack.ClusterOptions{Settings: stack.PushSettings()}) // for webhooks
	b.url = c.Gateways[0].URL
	acme := fill(t, c, c.NewTenant(t, "acme"))
	pages := slices.Concat(acme.pages(), acme.busyPages(t, c))
	allVisited(t, slices.Concat(pages, operatorsPages(acme.tenant.ID)))
	counted := refuse(t, c, &acme)
	part := func(name string, run func()) {
		t.Run(name, func(t *testing.T) {
			b.T = t
			run()
		})
	}
	part("sign in", func() { b.signsIn(&acme) })
	part("pages", func() { b.looksAt(pages, counted) })
	part("words", func() { b.says(&acme) })
	part("actions", func() { b.acts(&acme) })
	part("signals", func() { b.signals(&acme) })
	part("changes", func() { b.changes(&acme) })
	part("own keys", func() { b.managesKeys(&acme) })
	part("live", func() { b.follows(&acme) })
	part("output", func() { b.hears(&acme) })
	part("eight pages", func() { b.opensEightPages(c, &acme) })
	part("keys", func() { b.keys() })
	part("bulk actions", func() { b.cancelsMany(&acme) })
	part("operator", func() { b.operates(acme.tenant.ID) })
	part("pictures", func() { b.signsOut(); b.draws(c) })
}

// refuse gives the tenant caps and rates, and has one of its users refused, for the page of the limits. The gateway reports
// that in some seconds: counted waits until it has.
func refuse(t *testing.T, c *stack.Cluster, d *data) (counted func()) {
	t.Helper()
	limits := api.Limits{MaxActive: new(int64(50)), UserMaxActive: new(int64(1)), RequestsPerSecond: new(1000.0), JobsPerSecond: new(500.0)}
	if _, err := c.Client(t, stack.Operator).PatchTenant(t.Context(), d.tenant.ID, api.TenantPatch{Overrides: &api.Overrides{Limits: limits}}); err != nil {
		t.Fatal(err)
	}
	stack.Eventually(t, 30*time.Second, "the user is refused", func() bool {
		_, err := d.client.Submit(t.Context(), api.SubmitRequest{Type: "step", Queue: "steps", User: new("ada")})
		return err != nil
	})
	return func() {
		stack.Eventually(t, 30*time.Second, "it is counted", func() bool {
			stats, err := d.client.LimitStats(t.Context(), client.StatsRequest{})
			return err == nil && len(stats.Refused) == 1 && *stats.Refused[0].Whose == "ada" &&
				slices.ContainsFunc(stats.Limits, func(one api.LimitHistory) bool { return one.Name == "tenant-requests" })
		})
	}
}

func (b *tab) open(path string) {
	b.Helper()
	b.Do("open "+path, chromedp.Navigate(b.url+path), chromedp.WaitVisible(chromedp.CSS("main h1")))
}

// signsIn refuses a wrong key in words, and takes a link, once.
func (b *tab) signsIn(d *data) {
	b.Helper()
	b.open("/console/queues")
	b.Eventually("who is not signed in is led to the door", `location.pathname === "/console/sign-in"`)
	b.look("sign-in")
	b.Do("a wrong key", chromedp.SendKeys(chromedp.CSS("#key"), "fq_live_wrong"), chromedp.Click(chromedp.CSS(".door button")),
		chromedp.WaitVisible(chromedp.CSS("#refused")))
	b.look("sign-in-refused")
	b.Do("the key", chromedp.SendKeys(chromedp.CSS("#key"), d.tenant.Key), chromedp.Click(chromedp.CSS(".door button")))
	b.Eventually("back where it began", `location.pathname === "/console/queues" && document.querySelector("h1").textContent === "Queues"`)
	b.Eventually("no key in the page, and no cookie for scripts", `document.cookie === "" && !document.documentElement.outerHTML.includes("`+d.tenant.Key+`")`)
	b.signsOut()
	b.Eventually("signed out", `document.querySelector(".note")?.textContent.includes("signed out")`)
	b.Do("a link", chromedp.Navigate(b.url+b.link(d.tenant.Key)))
	b.Eventually("the link signs in", `location.pathname === "/console"`)
	b.Silent("401") // the wrong key's
}

func (b *tab) signsOut() {
	b.Helper()
	b.Do("sign out", chromedp.Navigate(b.url+"/console/session"), chromedp.Click(chromedp.CSS("main form button")), chromedp.WaitVisible(chromedp.CSS("#key")))
}

// link is the path of a link that signs in, made with a key as `up` does.
func (b *tab) link(key string) string {
	b.Helper()
	transport := &http.Transport{} // the usual one is held to the document of the API
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.url+"/console/links", nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var link api.ConsoleLink
	if err := json.NewDecoder(response.Body).Decode(&link); err != nil || response.StatusCode != http.StatusOK {
		b.Fatalf("%d %v", response.StatusCode, err)
	}
	return link.Path
}

// look holds the page to what every page must be, and logs what axe says of it: in both colours, narrow and wide. `make
// test` looks at one page light and wide, at the next one dark and narrow.
func (b *tab) look(name string) {
	b.Helper()
	type view struct {
		scheme string
		width  int64
	}
	views := []view{{"light", 1280}, {"dark", 1280}, {"light", 360}, {"dark", 360}}
	if b.looks++; !stack.All() && os.Getenv(browser.ScreenshotsEnv) == "" {
		views = []view{views[b.looks%2*3]}
	}
	report := ""
	for _, one := range views {
		b.Look(one.scheme, one.width)
		at := fmt.Sprint(name, "-", one.scheme, "-", one.width)
		b.Eventually("the page's own link is seen in the navigation: "+at, hereIsSeen)
		b.Shot(at)
		if wide := browser.Evaluate[int64](b.Tab, "its width", `document.documentElement.scrollWidth`); wide > one.width {
			b.Errorf("%s is %d wide", at, wide)
		}
		if over := browser.Evaluate[string](b.Tab, "overlaps", overlaps); over != "" {
			b.Errorf("%s: %s", at, over)
		}
		if (one.scheme == "dark") != (one.width == 360) {
			continue // axe is slow: once for each colour and each width
		}
		if !browser.Evaluate[bool](b.Tab, "whether the page has axe", `typeof axe === "object"`) {
			b.Do("give it to the page", chromedp.Evaluate[chromedp.Void](b.axe+"; undefined"))
		}
		found := browser.Evaluate[axeFound](b.Tab, "axe", axeRun)
		for _, violation := range found.Violations {
			b.Errorf("%s: axe: %s", at, violation)
		}
		report += fmt.Sprintf("; %s %d: %d rules passed, %d incomplete %v, %d violations", one.scheme, one.width, found.Passed, len(found.Incomplete), found.Incomplete, len(found.Violations))
	}
	b.Log("axe: " + name + report)
	b.Look("light", 1280)
}

// axeFound is what axe says of a page: how many rules passed, which it could not decide, and what is wrong.
type axeFound struct {
	Passed                 int
	Incomplete, Violations []string
}

// axeRun asks axe, by the rules of WCAG 2.2 A and AA, and best practices.
const axeRun = `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => ({
	passed: r.passes.length, incomplete: r.incomplete.map(v => v.id), violations: r.violations.map(v =>
	v.id + ": " + v.nodes.slice(0, 3).map(n => n.target.join(" ") + " " + n.failureSummary).join("; "))}))`

// hereIsSeen says whether the link of this page, where the navigation has one, is within the window's width.
const hereIsSeen = `(() => {
	const here = document.querySelector(".pages a[aria-current]")?.getBoundingClientRect();
	return !here || here.left >= 0 && here.right <= innerWidth;
})()`

// overlaps names two things to click that lie on each other.
const overlaps = `(() => {
	const things = [...document.querySelectorAll("a, button, input:not([type=hidden]), select, summary")].filter(e => e.checkVisibility() && !e.closest("svg, .chip, .search, .skip, .pages") && !e.matches(".skip"));
	const boxes = things.map(e => [e, e.getBoundingClientRect()]).filter(([, r]) => r.width > 0 && r.height > 0);
	for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
		const [a, p] = boxes[i], [b, q] = boxes[j];
		if (a.contains(b) || b.contains(a)) continue;
		if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 2 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 4)
			return a.outerHTML.slice(0, 80) + " lies on " + b.outerHTML.slice(0, 80);
	}
	return "";
})()`

func (b *tab) looksAt(pages []page, counted func()) {
	b.Helper()
	b.eachOf(pages)
	counted()
	b.open("/console/limits")
	b.Eventually("the use of a cap and of a rate is drawn, and who was refused is named",
		`document.querySelector("[data-plot=limit-user-active] canvas") !== null && document.querySelector("[data-plot=limit-tenant-requests] canvas") !== null && document.querySelector("main table.rows")?.textContent.includes("ada")`)
	b.look("limits-used")
	b.Silent()
	b.open("/console/none")
	b.look("none")
	b.Silent("404")
}

// says what nobody has to touch or to know to read: values beside charts, times of day, where it goes on.
func (b *tab) says(d *data) {
	b.Helper()
	b.open("/console")
	b.Eventually("the legends have the values of the last step", `(all => all.length >= 7 && all.every(e => /^(\d|—)/.test(e.textContent)))([...document.querySelectorAll(".u-value")])`)
	b.open("/console/jobs")
	b.Eventually("the filters suggest names", `["queue", "type"].every(name => [...document.querySelector("#f-" + name).list.options].some(o => o.value.startsWith("`+marker+`")))`)
	b.open("/console/schedules/" + schedule)
	b.Eventually("the next runs have times of day", `(all => all.length >= 5 && all.every(e => /\d\d:00:00/.test(e.textContent)))([...document.querySelectorAll(".tight time[data-clock]")])`)
	b.open("/console/redrives/" + d.redrive)
	b.Eventually("the list that it is of", `document.querySelector(".pages [aria-current]")?.textContent.trim() === "Dead letters"`)
	b.open("/console/workflows/" + d.workflow)
	b.Look("light", 360)
	b.Eventually("a graph that is cut fades at its right", `getComputedStyle(document.querySelector(".graph")).getPropertyValue("--fade-right") === "24px"`)
	b.Look("light", 1280)
	b.Eventually("one that is not is whole", `getComputedStyle(document.querySelector(".graph")).getPropertyValue("--fade-right") === "0px"`)
	b.Silent()
}

func (b *tab) eachOf(pages []page) {
	b.Helper()
	for _, one := range pages {
		b.open(one.path)
		b.look(one.name)
	}
}

// acts pauses a queue, and redrives a cause.
func (b *tab) acts(d *data) {
	b.Helper()
	b.open("/console/queues/" + queue)
	b.Do("pause", chromedp.Click(chromedp.CSS(`button[value="pause"]`)))
	b.Eventually("it says so, and the URL does not say it again", `document.querySelector(".note")?.textContent.includes("is paused") && location.search === ""`)
	if q, err := d.client.Queue(b.Context(), queue); err != nil || !q.Paused {
		b.Errorf("%+v %v", q, err)
	}
	b.Do("a setting that cannot be", chromedp.Evaluate[chromedp.Void](`document.querySelector("#max_attempts").value = "0"`), chromedp.Click(chromedp.CSS(`button[value="settings"]`)))
	b.Eventually("the refusal in words", `document.querySelector(".refusals")?.textContent.includes("must be between 1 and")`)
	b.Do("back", chromedp.Click(chromedp.CSS(".problem .button")), chromedp.WaitVisible(chromedp.CSS("#max_running")),
		chromedp.SendKeys(chromedp.CSS("#max_running"), "7"), chromedp.Click(chromedp.CSS(`button[value="settings"]`)))
	b.Eventually("saved", `document.querySelector("#max_running")?.value === "7" && document.querySelector(".note") !== null`)
	b.Do("resume", chromedp.Click(chromedp.CSS(`button[value="resume"]`)))
	b.Eventually("it is resumed", `document.querySelector(".note")?.textContent.includes("is resumed")`)
	if q, err := d.client.Queue(b.Context(), queue); err != nil || q.Paused || q.Settings.MaxRunning == nil || *q.Settings.MaxRunning != 7 {
		b.Errorf("%+v %v", q, err)
	}

	b.open("/console/dead-letters")
	b.Do("the cause", chromedp.Click(chromedp.CSS(".groups .button")), chromedp.WaitVisible(chromedp.CSS(".error-text")))
	b.Do("redrive all", chromedp.Click(chromedp.CSS(".actions .button.main")), chromedp.WaitVisible(chromedp.CSS(`button[value="redrive"]`)))
	b.Eventually("the dry run", `document.querySelector("h1").textContent.includes("Redrive 1")`)
	b.Do("do it", chromedp.Click(chromedp.CSS(`button[value="redrive"]`)))
	b.Eventually("its progress is followed to its end", `location.pathname.startsWith("/console/redrives/") && document.querySelector("h1")?.textContent.includes("done")`)
	b.Do("a reload", chromedp.Reload())
	b.Eventually("the same", `document.querySelector(".lead")?.textContent.includes("1 of 1")`)
	b.look("redrive")
	if job := stack.Get(b.T, d.client, d.dead); job.State != api.StateQueued {
		b.Errorf("the job is %s", job.State)
	}
	b.open("/console/jobs/" + d.dead)
	b.Eventually("its timeline says that it was dead, until it was redriven, and that it waits since", `(all => all.length === 2 && all[0].at(-1) === "Dead" && all[1].join() === "Waited" && document.querySelector(".spans + h3")?.textContent === "Redrive 1")(
		[...document.querySelectorAll(".spans")].map(list => [...list.querySelectorAll("li > span:not(.took)")].map(e => e.textContent)))`)
	b.look("job-redriven")
	b.Silent("400")
}

// managesKeys makes a key, which is shown once and works, and revokes it.
func (b *tab) managesKeys(d *data) {
	b.Helper()
	b.open("/console/keys")
	b.Do("only read", chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("input[name=scope]").forEach(e => e.checked = e.value === "read")`),
		chromedp.Click(chromedp.CSS("form.fields button.main")), chromedp.WaitVisible(chromedp.CSS(".new-key pre")))
	b.look("keys-new")
	secret := browser.Evaluate[string](b.Tab, "the key", `document.querySelector(".new-key pre").textContent`)
	made, err := client.New(client.Options{URL: b.url, APIKey: secret})
	if err != nil {
		b.Fatal(err)
	}
	defer made.CloseIdleConnections()
	who, err := made.Whoami(b.Context())
	if err != nil || *who.Tenant != d.tenant.ID || len(who.Scopes) != 1 || who.Scopes[0] != api.ScopeRead {
		b.Fatalf("%+v %v", who, err)
	}
	form := `form[action="/console/keys/` + who.KeyID + `"]`
	b.open("/console/keys")
	b.Eventually("it is not shown again", `!document.documentElement.outerHTML.includes("`+secret+`") && document.querySelector('`+form+`') !== null`)
	b.Do("revoke", chromedp.Evaluate[chromedp.Void](`document.querySelector('`+form+`').closest("details").open = true`), chromedp.Click(chromedp.CSS(form+" button")))
	b.Eventually("it is revoked", `document.querySelector(".note")?.textContent.includes("is revoked") && document.querySelector('`+form+`') === null`)
	if _, err := made.Whoami(b.Context()); client.Status(err) != http.StatusUnauthorized {
		b.Errorf("the revoked key: %v", err)
	}
	b.Silent()
}

// follows a job from queued to its end, without a reload.
func (b *tab) follows(d *data) {
	b.Helper()
	const live = "live-lane"
	id := stack.Submit(b.T, d.client, api.SubmitRequest{Type: "watched", Queue: live, Payload: []byte(`{"a":{"b":{"c":1}}}`)})
	b.open("/console/jobs/" + id)
	b.Do("mark the page, and fold its payload", chromedp.Evaluate[chromedp.Void](`window.same = true; document.querySelector(".tree details").open = false`))
	b.Eventually("why it waits", `document.querySelector(".why-card")?.textContent.includes("worker")`)
	job := stack.ClaimOne(b.T, d.client, "console-worker", live)
	b.Eventually("it runs", `document.querySelector("h1 .state").textContent.trim() === "running"`)
	percent, message := 40.0, "page 4 of 10"
	if _, err := d.client.Heartbeat(b.Context(), "console-worker", []api.Lease{{JobID: id, LeaseToken: job.LeaseToken, Progress: &api.Progress{Percent: &percent, Message: &message}}}); err != nil {
		b.Fatal(err)
	}
	b.Eventually("its progress", `document.body.textContent.includes("page 4 of 10") && document.querySelector("progress")?.value === 40`)
	b.look("running")
	if _, err := d.client.Complete(b.Context(), id, api.CompleteRequest{LeaseToken: job.LeaseToken, Result: []byte(`{"answer":42}`)}); err != nil {
		b.Fatal(err)
	}
	b.Eventually("its end and its result", `document.querySelector("h1 .state").textContent.trim() === "completed" && document.body.textContent.includes("answer")`)
	b.Eventually("in the same page", `window.same === true && !document.querySelector("#live ~ section .tree details").open`)

	b.open("/console/queues")
	b.Do("mark the page", chromedp.Evaluate[chromedp.Void](`window.same = true`))
	stack.Submit(b.T, d.client, api.SubmitRequest{Type: "watched", Queue: "came-later"})
	b.Eventually("a queue that came later", `window.same === true && document.body.textContent.includes("came-later")`)
	b.Silent()
}

func (b *tab) keys() {
	b.Helper()
	b.open("/console")
	b.Do("g q", chromedp.KeyEvent("g"), chromedp.KeyEvent("q"))
	b.Eventually("queues", `location.pathname === "/console/queues" && document.readyState === "complete"`)
	b.Do("?", chromedp.KeyEvent("?"))
	b.Eventually("the list of keys", `document.querySelector("#keys").open`)
	b.look("keys")
	b.Do("close it", chromedp.Click(chromedp.CSS("#keys button")))
	b.Do("/", chromedp.KeyEvent("/"))
	b.Eventually("the search", `document.activeElement.id === "q"`)
	b.Do("search", chromedp.Evaluate[chromedp.Void](`document.activeElement.value = ""`), // the protocol types the key all the same
		chromedp.SendKeys(chromedp.CSS("#q"), "order="+marker+"\r"))
	b.Eventually("what was found", `location.search === "?metadata=order%3D`+marker+`" && document.querySelectorAll(".jobs tbody tr").length === 3`)
	b.Silent()
}

func (b *tab) operates(tenant string) {
	b.Helper()
	b.signsOut()
	b.Do("the operator's key", chromedp.SendKeys(chromedp.CSS("#key"), stack.Operator), chromedp.Click(chromedp.CSS(".door button")))
	b.Eventually("the operator's first page", `location.pathname === "/console/admin/tenants"`)
	b.eachOf(operatorsPages(tenant))
	b.Silent()
}
