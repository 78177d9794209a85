package console_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// noon is the clock of these tests.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// fake is an API with some answers, by "GET /v1/path", or with its query where there is one of that.
type fake struct {
	answers map[string]string
	asked   []string
	// keys are the Idempotency-Keys that came.
	keys []string
	// sent are the bodies that came, but for the empty ones.
	sent []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodOptions {
		for route := range f.answers {
			if strings.HasSuffix(route, " "+r.URL.Path) {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
		return
	}
	route := r.Method + " " + r.URL.Path
	f.asked = append(f.asked, r.Method+" "+r.URL.String())
	f.keys = append(f.keys, r.Header["Idempotency-Key"]...)
	if body, _ := io.ReadAll(r.Body); len(body) > 0 {
		f.sent = append(f.sent, string(body))
	}
	text, ok := f.answers[r.Method+" "+r.URL.String()]
	if !ok {
		text, ok = f.answers[route]
	}
	switch {
	case !ok:
		problem.New(problem.NotFound, "There is no such resource.").Write(w)
	case r.Header.Get("Authorization") != "Bearer the-key":
		problem.New(problem.Unauthenticated, "").Write(w)
	case strings.HasPrefix(text, "503"):
		problem.New(problem.CoreUnavailable, "Core cannot be reached.").WithRetryAfter(1500 * time.Millisecond).Write(w)
	default:
		_, _ = io.WriteString(w, text)
	}
}

// open signs in to a console in front of an API, and gives what a page answers.
func open(t *testing.T, f *fake) func(method, path string, fields ...string) (int, string) {
	t.Helper()
	f.answers["GET /v1/whoami"] = `{"tenant":"t","user":null,"scopes":["read","manage"],"plan":"p","key_id":"k"}`
	made, err := console.New(console.Options{Secret: []byte(strings.Repeat("s", 32)), Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	served, cookie := made.Handler(f), ""
	send := func(method, path string, fields ...string) (int, string) {
		t.Helper()
		values := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			values.Set(fields[i], fields[i+1])
		}
		r := httptest.NewRequest(method, path, strings.NewReader(values.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", cookie)
		w := httptest.NewRecorder()
		served.ServeHTTP(w, r)
		if set := w.Result().Cookies(); len(set) > 0 {
			cookie = set[0].Name + "=" + set[0].Value
		}
		return w.Code, w.Header().Get("Location") + w.Body.String()
	}
	if status, text := send(http.MethodPost, "/console/sign-in", "key", "the-key"); status != http.StatusSeeOther {
		t.Fatalf("%d %s", status, text)
	}
	return send
}

const (
	emptyList = `{"items":[],"next_page_token":null}`
	counts    = `{"items":[{"at":"2026-11-20T11:58:00Z","submitted":1200,"completed":7,"failed_attempts":2,"dead_letter":1},{"at":"2026-11-20T11:59:00Z","submitted":3,"completed":4,"failed_attempts":0,"dead_letter":0}]}`
	hooks     = `{"items":[{"name":"alerts","url":"https://example.com/<hook>","events":["job.dead_letter"],"filter":{"queue":"mails"},"paused":false,"secret":null,"deliveries":{"waiting":3,"running":0,"dead_letter":1,"last_status":503,"more":true}}],"next_page_token":null}`
)

// The limits' use is drawn with the limit through the gaps, and is a table too; who was refused is named. A page that
// updates itself, and a user's, ask for none of it.
func TestLimitsOverTime(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{
		"GET /v1/limits": `{"policies":[],"caps":[{"scope":"tenant","kind":"active","limit":9,"used":3}]}`, // lowered since the last step
		"GET /v1/limits/stats": `{"from":"2026-11-20T11:56:00Z","to":"2026-11-20T12:00:00Z","step":"minute","queue":null,
			"limits":[{"name":"tenant-active","items":[{"at":"2026-11-20T11:57:00Z","used":1200,"limit":10,"refused":0},{"at":"2026-11-20T11:59:00Z","used":8,"limit":12,"refused":4}]}],
			"refused":[{"name":"tenant-active","whose":null,"refused":4,"last_at":"2026-11-20T11:59:00Z"},{"name":"user-active","whose":"<ada>","refused":2,"last_at":"2026-11-20T11:59:00Z"}]}`,
	}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/limits")
	for _, want := range []string{"1\u202f200", "&lt;ada&gt;", "One user&#39;s active jobs", "The tenant", `data-charts="/console/charts?of=limits&amp;span=hour"`, `data-plot="limits-refused"`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	const drawn = `"limit-tenant-active":{"series":["Most in use","Limit"],"limited":true,"at":[1795175760,1795175820,1795175880,1795175940],"values":[[null,1200,null,8],[10,10,10,9]]}`
	if status, text := send(http.MethodGet, "/console/charts?of=limits"); status != http.StatusOK || !strings.Contains(text, drawn) || !strings.Contains(text, `"values":[[null,0,null,4]]`) {
		t.Errorf("%d %s", status, text)
	}
	f.answers["GET /v1/limits/stats"] = "503"
	if status, text := send(http.MethodGet, "/console/limits"); status != http.StatusOK || strings.Contains(text, "History") || !strings.Contains(text, "3 of 9") {
		t.Errorf("%d %s", status, text)
	}
	f.answers["GET /v1/whoami"] = `{"tenant":"t","user":"ada","scopes":["read"],"plan":"p","key_id":"k","tenant_name":"<Acme>"}`
	f.asked = nil
	status, text = send(http.MethodGet, "/console/limits")
	if status != http.StatusOK || strings.Contains(strings.Join(f.asked, " "), "stats") {
		t.Errorf("%d, asked %v", status, f.asked)
	}
	if !strings.Contains(text, `<span>&lt;Acme&gt; · ada</span>`) {
		t.Errorf("nobody is named in %s", text)
	}
}

// Tenants are listed with their share of the attempts and that by weight; of those that are not counted one by one it is
// said how much it is at most.
func TestSharesOfTenants(t *testing.T) {
	t.Parallel()
	const items = `"items":[{"at":"2026-11-20T11:58:00Z","started":%d},{"at":"2026-11-20T11:59:00Z","started":0}]`
	stats := func(others string) string {
		return `{"from":"2026-11-20T11:58:00Z","to":"2026-11-20T12:00:00Z","step":"minute","tenants":[
			{"tenant_id":"00000001","name":"acme","weight":3,"started":900,"running_ms":1000,` + fmt.Sprintf(items, 900) + `},
			{"tenant_id":"00000002","name":"<beta>","weight":1,"started":80,"running_ms":2000,` + fmt.Sprintf(items, 80) + `}],"others":` + others + `}`
	}
	f := &fake{answers: map[string]string{
		"GET /v1/whoami": `{"operator":true,"scopes":["operator"],"key_id":"k"}`,
		"GET /v1/admin/tenants": `{"items":[{"id":"00000001","name":"acme","weight":3},{"id":"00000002","name":"<beta>","weight":1},
			{"id":"00000003","name":"gamma","weight":1}],"next_page_token":null}`,
		"GET /v1/admin/plans":         `{"items":[],"next_page_token":null}`,
		"GET /v1/admin/tenants/stats": stats(`{"tenants":2,"weight":4,"started":20,"running_ms":1000,` + fmt.Sprintf(items, 20) + `}`),
	}}
	send := open(t, f)
	page := func(wanted ...string) {
		t.Helper()
		status, text := send(http.MethodGet, "/console/admin/tenants")
		for _, want := range wanted {
			if status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%d, no %q in %s", status, want, text)
			}
		}
	}
	row := func(had, ran, fair string) string {
		return `data-label="Attempts, last hour">` + had + `</td><td class="n" data-label="Running time">` + ran + `</td><td class="n" data-label="By weight">` + fair + `</td>`
	}
	page(row("90 %", "25 %", "38 %"), row("8 %", "50 %", "13 %"), row("at most 8 %", "—", "—"), `data-charts="/console/charts?of=tenants&amp;span=hour"`, "2 others", "&lt;beta&gt;")
	if status, text := send(http.MethodGet, "/console/charts?of=tenants"); status != http.StatusOK || !strings.Contains(text, `"values":[[900,0],[80,0],[20,0]]`) {
		t.Errorf("%d %s", status, text)
	}
	f.answers["GET /v1/admin/tenants/stats"] = stats(`{"tenants":0,"weight":0,"started":0,"items":[]}`)
	page(row("92 %", "33 %", "75 %"), row("8.2 %", "67 %", "25 %"), row("0 %", "0 %", "—"))
	f.answers["GET /v1/admin/tenants/stats"] = `{"from":"2026-11-20T11:58:00Z","to":"2026-11-20T12:00:00Z","step":"minute","tenants":[],"others":{"tenants":0,"items":[]}}`
	page(row("0 %", "0 %", "—"), "Nothing to show in this time")
	f.answers["GET /v1/admin/tenants/stats"] = "503"
	page("acme")
}

// Of a rate what was admitted and refused is drawn, with zeros where nothing was asked for, and the rate where all share it.
func TestRatesOverTime(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{
		"GET /v1/limits": `{"policies":[],"caps":[]}`,
		"GET /v1/limits/stats": `{"from":"2026-11-20T11:56:00Z","to":"2026-11-20T12:00:00Z","step":"minute","queue":null,"limits":[
			{"name":"tenant-requests","items":[{"at":"2026-11-20T11:57:00Z","used":70,"limit":60,"refused":0}]},
			{"name":"user-jobs","items":[{"at":"2026-11-20T11:58:00Z","used":5,"limit":0,"refused":4}]}],
			"refused":[{"name":"user-jobs","whose":"ada","refused":4,"last_at":"2026-11-20T11:58:00Z"}]}`,
	}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/limits")
	for _, want := range []string{"The tenant&#39;s requests", "All users&#39; jobs submitted", "One user&#39;s jobs submitted", `data-clock="minute">11:58 UTC</time></td><td class="n">5</td><td class="n">4</td>`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	status, text = send(http.MethodGet, "/console/charts?of=limits")
	for _, want := range []string{
		`"series":["Admitted","Refused","Limit"],"limited":true,"at":[1795175760,1795175820,1795175880,1795175940],"values":[[0,70,0,0],[0,0,0,0],[60,60,60,60]]`,
		`"series":["Admitted","Refused"],"at":[1795175760,1795175820,1795175880,1795175940],"values":[[0,0,5,0],[0,0,4,0]]`,
	} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
}

// The filters of jobs suggest the first queues and types, also beside an older page of jobs; where the names cannot be
// read, they suggest none.
func TestFiltersSuggestNames(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{
		"GET /v1/jobs": emptyList, "GET /v1/types": `{"items":[{"type":"mail.<send>"}],"next_page_token":null}`, "GET /v1/queues": `{"items":[{"name":"mails"}],"next_page_token":null}`,
	}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/jobs?page_token=older")
	for _, want := range []string{
		`list="s-queue"`, `<datalist id="s-queue"><option value="mails"></option></datalist>`, `<datalist id="s-type"><option value="mail.&lt;send&gt;"></option></datalist>`,
	} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	if asked := strings.Join(f.asked, " "); strings.Count(asked, "page_token") != 1 || !strings.Contains(asked, "depth_budget=1&") {
		t.Errorf("asked %s", asked)
	}
	f.answers["GET /v1/types"], f.answers["GET /v1/queues"] = "503", "503"
	if status, text := send(http.MethodGet, "/console/jobs"); status != http.StatusOK || strings.Contains(text, "datalist") {
		t.Errorf("%d %s", status, text)
	}
}

func TestChartsOfTheCounts(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"GET /v1/queues": emptyList, "GET /v1/limits": `{"policies":[],"caps":[]}`, "GET /v1/stats": counts, "GET /v1/audit": emptyList}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console")
	found := regexp.MustCompile(`(?s)<script type="application/json" id="plot-stats">(.*?)</script>`).FindStringSubmatch(text)
	if status != http.StatusOK || found == nil {
		t.Fatalf("%d %s", status, text)
	}
	var plot struct {
		Series []string
		At     []int64
		Values [][]int64
	}
	if err := json.Unmarshal([]byte(found[1]), &plot); err != nil || len(plot.Series) != 3 || len(plot.At) != 2 || plot.At[1] != noon.Unix()-60 || plot.Values[0][0] != 1200 {
		t.Errorf("%v %+v", err, plot)
	}
	if !strings.Contains(text, "1\u202f200") { // in the table
		t.Error("no table")
	}
	if want := "GET /v1/stats?from=2026-11-20T11%3A00%3A00Z&step=minute&to=2026-11-20T12%3A00%3A00Z"; f.asked[len(f.asked)-2] != want {
		t.Errorf("asked %v", f.asked)
	}
	// A page that updates itself asks core for two things, besides what the key is; once for two more.
	if asked := f.asked[len(f.asked)-4:]; f.asked[len(f.asked)-5] != "GET /v1/whoami" || !strings.HasPrefix(asked[3], "GET /v1/audit") || asked[0] != "GET /v1/queues?depth_budget=10000&page_size=50" {
		t.Errorf("asked %v", f.asked)
	}
	if status, text := send(http.MethodGet, "/console/charts?span=hour"); status != http.StatusOK || !strings.Contains(text, `"stats":{"series":["Submitted"`) {
		t.Errorf("newer ones: %d %s", status, text)
	}
	f.answers["GET /v1/stats"] = "503"
	if status, text := send(http.MethodGet, "/console"); status != http.StatusOK || strings.Contains(text, "plot-stats") {
		t.Errorf("without counts: %d %s", status, text)
	}
	// Another span: what open pages read is shared for two seconds.
	if status, _ := send(http.MethodGet, "/console/charts?span=day"); status != http.StatusServiceUnavailable {
		t.Errorf("newer ones: %d", status)
	}
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"GET /v1/webhooks": hooks, "POST /v1/webhooks/alerts/test": `{}`, "GET /v1/limits": `{"policies":[],"caps":[]}`}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/webhooks")
	for _, want := range []string{"alerts", "https://example.com/&lt;hook&gt;", "job.dead_letter", "queue mails", ">503<", `href="/console/webhooks"`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	token := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(text)[1]
	if status, text := send(http.MethodPost, "/console/webhooks/alerts/test", "form", token); status != http.StatusSeeOther || f.asked[len(f.asked)-1] != "POST /v1/webhooks/alerts/test" {
		t.Errorf("%d %s %v", status, text, f.asked)
	}
}

// The instants in the sentences of the API are in the reader's zone too.
func TestInstantsInSentences(t *testing.T) {
	t.Parallel()
	const job = `{"id":"0190a1b2-0000-7000-8000-000000000000","type":"t","queue":"q","state":"running","attempt":1,"max_attempts":2,"epoch":1,"created_at":"2026-11-20T11:50:00Z","run_at":"2026-11-20T11:50:00Z","started_at":"2026-11-20T11:56:00Z"}`
	f := &fake{answers: map[string]string{"GET /v1/jobs/j/explain": `{"state":"running","because":[{"code":"worker_stale","detail":"The worker <w> has sent no heartbeat since 2026-11-20 11:58:00 UTC, not 2026-02-31 11:58:00 UTC.","frees":""}],"job":` + job + `,"attempts":[]}`}}
	status, text := open(t, f)(http.MethodGet, "/console/jobs/j")
	for _, want := range []string{`The worker &lt;w&gt; has sent no heartbeat since <time datetime="2026-11-20T11:58:00Z" data-clock>Fri 20 Nov, 11:58:00 UTC</time>`, `, not 2026-02-31 11:58:00 UTC.</p>`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
}

// An audit entry names the key that did it, and leads to the keys who may see them.
func TestAuditNamesTheKey(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"GET /v1/audit": `{"items":[{"id":"1","actor":{"kind":"tenant","key_id":"k-9","user":null},"action":"queue.pause","object":"mails","detail":{},"at":"2026-11-20T11:59:00Z"}],"next_page_token":null}`}}
	send := open(t, f)
	for scope, want := range map[string]string{"manage": `key <code>k-9</code>`, "manage\",\"admin": `key <a href="/console/keys"><code>k-9</code></a>`} {
		f.answers["GET /v1/whoami"] = `{"tenant":"t","user":null,"scopes":["read","` + scope + `"],"plan":"p","key_id":"k"}`
		if status, text := send(http.MethodGet, "/console/audit"); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
}

// A destination whose breaker is open can be tried now, by a key that may.
func TestProbes(t *testing.T) {
	t.Parallel()
	queue := func(state string) string {
		return `{"name":"hooks","mode":"push","depth_capped":[],"unserved":[],"breaker":{"state":"` + state + `","since":"2026-11-20T11:59:00Z","retry_at":null},"settings":{"types":{},"visibility_timeout_ms":30000,"retry":{"cap_ms":300000}}}`
	}
	f := &fake{answers: map[string]string{"GET /v1/queues/hooks": queue("open"), "POST /v1/queues/hooks/probe": `{}`, "GET /v1/stats": `{"items":[]}`, "POST /v1/webhooks/alerts/probe": `{}`}}
	send := open(t, f)
	_, text := send(http.MethodGet, "/console/queues/hooks")
	if !strings.Contains(text, `value="probe" aria-describedby="help-probe"`) || !strings.Contains(text, "although the breaker is open.") || !strings.Contains(text, "Pause: no job starts") ||
		!strings.Contains(text, `class="quiet small same" id="visibility_timeout-now">Now 30`) || !strings.Contains(text, `class="quiet small" id="retry_cap-now">Now 5`) {
		t.Errorf("no button, or no words for it, in %s", text)
	}
	token := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(text)[1]
	for path, want := range map[string]string{"/console/queues/hooks": "POST /v1/queues/hooks/probe", "/console/webhooks/alerts/probe": "POST /v1/webhooks/alerts/probe"} {
		if status, text := send(http.MethodPost, path, "form", token, "do", "probe"); status != http.StatusSeeOther || f.asked[len(f.asked)-1] != want {
			t.Errorf("%s: %d %s %v", path, status, text, f.asked)
		}
	}
	f.answers["GET /v1/queues/hooks"] = queue("closed")
	if _, text := send(http.MethodGet, "/console/queues/hooks"); strings.Contains(text, `value="probe"`) {
		t.Error("there is a button where it is closed")
	}
	f.answers["GET /v1/queues/hooks"], f.answers["GET /v1/whoami"] = queue("open"), `{"tenant":"t","user":null,"scopes":["read"],"plan":"p","key_id":"k"}`
	if status, text := send(http.MethodGet, "/console/queues/hooks"); status != http.StatusOK || strings.Contains(text, `value="probe"`) {
		t.Errorf("there is a button for a reader: %d", status)
	}
}

// What the API refuses is said in words, with its status, and when to try again.
func TestRefusalsInWords(t *testing.T) {
	t.Parallel()
	send := open(t, &fake{answers: map[string]string{"GET /v1/queues": "503"}})
	if status, text := send(http.MethodGet, "/console/queues"); status != http.StatusServiceUnavailable || !strings.Contains(text, "Core cannot be reached") || !strings.Contains(text, "Try again in 1.5\u00a0s") {
		t.Errorf("%d %s", status, text)
	}
}

// What no name or id can be is refused in words, whatever the API's client says of it.
func TestPathsThatNameNothing(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{}}
	send := open(t, f)
	for _, path := range []string{"/console/queues/%2E%2E", "/console/types/mail?version=newest", "/console/types/%2E"} {
		if status, text := send(http.MethodGet, path); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, key := range []string{"", "two words", "schl\u00fcssel", "a\r\nb: c"} {
		if status, text := send(http.MethodPost, "/console/sign-in", "key", key); status != http.StatusUnauthorized || !strings.Contains(text, "This key is not valid") {
			t.Errorf("%q: %d %s", key, status, text)
		}
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	send := open(t, &fake{answers: map[string]string{}})
	for text, want := range map[string]string{
		"0190A000-0000-7000-8000-0000000000B1": "/console/jobs/0190a000-0000-7000-8000-0000000000b1",
		"":                                     "/console/jobs", "mail.send": "/console/jobs?type=mail.send", "order=17": "/console/jobs?metadata=order%3D17",
		"queue:mails": "/console/jobs?queue=mails", "key:order:17": "/console/jobs?key=order%3A17", "dedupe:order:17": "/console/jobs?dedupe_key=order%3A17", "a:b": "/console/jobs?type=a%3Ab",
	} {
		if status, got := send(http.MethodGet, "/console/search?q="+url.QueryEscape(text)); status != http.StatusSeeOther || got != want {
			t.Errorf("%q leads to %q, want %q", text, got, want)
		}
	}
}

// A double click on a button that makes a job makes one.
func TestAFormIsOneJob(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"POST /v1/schedules/nightly/trigger": `{"id":"j"}`, "POST /v1/schedules/nightly/pause": `{}`}}
	send := open(t, f)
	_, text := send(http.MethodGet, "/console/session")
	token := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(text)[1]
	once := regexp.MustCompile(`name="once" value="([^"]+)"`).FindStringSubmatch(text)[1]
	for range 2 {
		if status, to := send(http.MethodPost, "/console/schedules/nightly", "form", token, "once", once, "do", "trigger"); status != http.StatusSeeOther || to != "/console/jobs/j" {
			t.Errorf("%d %s", status, to)
		}
	}
	send(http.MethodPost, "/console/schedules/nightly", "form", token, "once", once, "do", "pause")
	if len(f.keys) != 2 || f.keys[0] != once || f.keys[1] != once {
		t.Errorf("the keys %q, want twice %q", f.keys, once)
	}
	if _, text := send(http.MethodGet, "/console/session"); strings.Contains(text, once) {
		t.Error("two pages have the same")
	}
}

func TestWorkflowSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	job := func(ref, state, after string) string {
		return fmt.Sprintf(`{"ref":%q,"id":"id-%s","type":"t","state":%q,"after":[%s]}`, ref, ref, state, after)
	}
	after := func(ref, state string) string {
		return fmt.Sprintf(`{"job_id":"id-%s","ref":%q,"state":%q}`, ref, ref, state)
	}
	f := &fake{answers: map[string]string{"GET /v1/workflows/w": `{"id":"w","name":"orders","state":"running","created_at":"2026-11-20T11:58:00Z","counts":{"completed":1,"running":4,"blocked":1},"jobs":[` + strings.Join([]string{
		job("done", "completed", ""), job("a", "running", ""), job("b", "running", ""), job("c", "running", ""), job("d", "running", ""),
		job("last", "blocked", strings.Join([]string{after("done", "completed"), after("a", "running"), after("b", "running"), after("c", "running"), after("d", "running")}, ",")),
	}, ",") + `]}`}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/workflows/w")
	for _, want := range []string{"waits for a, b, c<", "and 1 more", "1 of 6"} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	if counted := regexp.MustCompile(`</span> 4</span>`).FindString(text); counted == "" {
		t.Errorf("no count of running jobs in %s", text)
	}
}

// A workflow of which nothing runs leads to the job that says why.
func TestWorkflowOfWhichNothingRuns(t *testing.T) {
	t.Parallel()
	for counts, says := range map[string]bool{`"queued":1`: true, `"running":1,"queued":1`: false} {
		f := &fake{answers: map[string]string{
			"GET /v1/workflows/w": `{"id":"w","name":"orders","state":"running","created_at":"2026-11-20T11:58:00Z","counts":{` + counts + `},"jobs":[{"ref":"a","id":"j","type":"t","state":"queued","after":[]}]}`,
		}}
		status, text := open(t, f)(http.MethodGet, "/console/workflows/w")
		if got := strings.Contains(text, `<a href="/console/jobs/j">Why a waits</a>`); status != http.StatusOK || got != says {
			t.Errorf("%s: %d, says why: %v", counts, status, got)
		}
	}
}

// A list says what each job waits for, and where it runs.
func TestRowsOfJobs(t *testing.T) {
	t.Parallel()
	var items []string
	for _, one := range []string{
		`"state":"queued","run_at":"2026-11-20T11:55:00Z"`, `"state":"blocked","blocked_by":3`, `"state":"blocked","blocked_by":1`, `"state":"blocked"`,
		`"state":"running","started_at":"2026-11-20T11:59:30Z","worker_id":"w-7"`,
		`"state":"scheduled","run_at":"2026-11-20T12:02:00Z","last_error":{"type":"E","message":"it broke"}`, `"state":"scheduled","run_at":"2026-11-20T12:03:00Z"`,
		`"state":"running","started_at":"2026-11-20T11:59:20Z","worker_id":"w-8","cancel_requested":true,"last_error":{"type":"E","message":"it broke"}`,
	} {
		items = append(items, `{"id":"0190a1b2-0000-7000-8000-000000000000","type":"t","queue":"q","created_at":"2026-11-20T11:50:00Z",`+one+`}`)
	}
	f := &fake{answers: map[string]string{"GET /v1/jobs": `{"items":[` + strings.Join(items, ",") + `],"next_page_token":null}`}}
	status, text := open(t, f)(http.MethodGet, "/console/jobs")
	text = strings.ReplaceAll(text, "\u00a0", " ")
	for _, want := range []string{
		"waits for 5 min", "waits for 3 other jobs", "waits for another job", "waits for other jobs", "runs for 30 s on w-7",
		`E: it broke</span> tried again <time`, `>starts <time`, `E: it broke</span> asked to stop, runs for 40 s on w-8`,
	} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
}

// The error of the last attempt stands on the page of a job once, with those of the others.
func TestErrorOfAJobOnce(t *testing.T) {
	t.Parallel()
	const job = `{"id":"0190a1b2-0000-7000-8000-000000000000","type":"t","queue":"q","state":"dead_letter","attempt":2,"max_attempts":2,"epoch":2,"created_at":"2026-11-20T11:50:00Z","run_at":"2026-11-20T11:50:00Z",
		"started_at":"2026-11-20T11:56:00Z","finished_at":"2026-11-20T11:57:00Z","dead_reason":"exhausted","last_error":{"type":"E","message":"the last one","stack":"at x"}}`
	attempt := func(n, message string) string {
		return `{"attempt":` + n + `,"epoch":` + n + `,"kind":"failed","started_at":"2026-11-20T11:5` + n + `:00Z","ended_at":"2026-11-20T11:5` + n + `:30Z","error":{"type":"E","message":"` + message + `","stack":"at x"}}`
	}
	f := &fake{answers: map[string]string{"GET /v1/jobs/j/explain": `{"state":"dead_letter","because":[],"job":` + job + `,"attempts":[` + attempt("1", "the first one") + `,` + attempt("2", "the last one") + `]}`}}
	status, text := open(t, f)(http.MethodGet, "/console/jobs/j")
	if n := strings.Count(text, "the last one"); status != http.StatusOK || n != 1 || !strings.Contains(text, "Its error is above.") || strings.Count(text, "the first one") != 1 {
		t.Errorf("%d, %d times, in %s", status, n, text)
	}
	if !strings.Contains(text, `aria-describedby="help-redrive"`) || !strings.Contains(text, `<li id="help-redrive">Redrive: `) {
		t.Errorf("no words for Redrive in %s", text)
	}
}

// The page of a redriven job says how long it was dead, who has redriven it, and which attempts came after that.
func TestARedrivenJobSaysSo(t *testing.T) {
	t.Parallel()
	const job = `{"id":"0190a1b2-0000-7000-8000-000000000000","type":"t","queue":"q","state":"completed","attempt":1,"max_attempts":1,"epoch":2,"redrives":1,"created_at":"2026-11-20T11:50:00Z","run_at":"2026-11-20T11:54:00Z",
		"started_at":"2026-11-20T11:55:00Z","finished_at":"2026-11-20T11:56:00Z","payload":{"n":1},"metadata":{"name":""}}`
	f := &fake{answers: map[string]string{
		"GET /v1/jobs/j/explain": `{"state":"completed","because":[],"job":` + job + `,"attempts":[
			{"attempt":1,"epoch":1,"kind":"failed","started_at":"2026-11-20T11:51:00Z","ended_at":"2026-11-20T11:52:00Z"},
			{"attempt":1,"epoch":2,"kind":"completed","started_at":"2026-11-20T11:55:00Z","ended_at":"2026-11-20T11:56:00Z"}]}`,
		"GET /v1/audit": `{"items":[{"id":"a","actor":{"kind":"tenant","key_id":"8y2k4m6n8p0q1r3s","user":null},"action":"dead_letter.redrive","object":"0190a1b2-0000-7000-8000-000000000000","detail":{},"at":"2026-11-20T11:54:00Z"}],"next_page_token":null}`,
	}}
	status, text := open(t, f)(http.MethodGet, "/console/jobs/j")
	for _, want := range []string{"<span>Dead</span> <span class=\"took\">2\u00a0min", "Redriven by key 8y2k4m6n8p0q1r3s, ", "Redrive 1, attempt 1", "redriven once", "<dt>name</dt><dd>\"\"</dd>"} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	if !slices.Contains(f.asked, "GET /v1/audit?action=dead_letter.redrive&object=0190a1b2-0000-7000-8000-000000000000&page_size=50") {
		t.Errorf("asked %v", f.asked)
	}
}

// A job that has ended can be run again with another payload, which must be JSON.
func TestRunAgainWithChanges(t *testing.T) {
	t.Parallel()
	const job = `{"id":"j","type":"t","queue":"q","state":"dead_letter","attempt":1,"max_attempts":1,"epoch":1,"created_at":"2026-11-20T11:50:00Z","run_at":"2026-11-20T11:54:00Z","finished_at":"2026-11-20T11:56:00Z","dead_reason":"permanent","payload":{"n":1}}`
	f := &fake{answers: map[string]string{"GET /v1/jobs/j/explain": `{"state":"dead_letter","because":[],"job":` + job + `,"attempts":[]}`, "POST /v1/jobs/j/rerun": `{"id":"new"}`}}
	send := open(t, f)
	f.answers["GET /v1/whoami"] = `{"tenant":"t","user":null,"scopes":["read","submit"],"plan":"p","key_id":"k"}`
	_, text := send(http.MethodGet, "/console/jobs/j")
	if !strings.Contains(text, "Run again with changes…") || !regexp.MustCompile(`<textarea[^>]*>\{\s+&#34;n&#34;: 1\s+\}</textarea>`).MatchString(text) {
		t.Fatalf("no editor in %s", text)
	}
	token := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(text)[1]
	if status, text := send(http.MethodPost, "/console/jobs/j", "form", token, "once", "o1", "do", "rerun-changed", "payload", "{n:1"); status != http.StatusBadRequest || !strings.Contains(text, "The payload is not JSON") {
		t.Errorf("%d %s", status, text)
	}
	if slices.Contains(f.asked, "POST /v1/jobs/j/rerun") {
		t.Error("a payload that is not JSON was sent")
	}
	if status, to := send(http.MethodPost, "/console/jobs/j", "form", token, "once", "o2", "do", "rerun-changed", "payload", `{"n": 2}`); status != http.StatusSeeOther || !strings.HasPrefix(to, "/console/jobs/new") {
		t.Errorf("%d %s", status, to)
	}
	if len(f.sent) != 1 || f.sent[0] != `{"payload":{"n":2}}` {
		t.Errorf("sent %q", f.sent)
	}
}

func TestCauseSaysSinceWhen(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{
		"GET /v1/dead-letters":        `{"items":[{"job":{"id":"j","type":"send","queue":"mails"},"reason":"exhausted","attempts":3,"died_at":"2026-11-20T11:59:00Z","fingerprint":"ff"}],"next_page_token":null}`,
		"GET /v1/dead-letters/groups": `{"items":[{"fingerprint":"ff","queue":"mails","count":1214,"first_died_at":"2026-11-20T09:00:00Z","last_died_at":"2026-11-20T11:59:00Z"}],"read":1214,"groups":1}`,
	}}
	status, text := open(t, f)(http.MethodGet, "/console/dead-letters/group?fingerprint=ff&queue=mails")
	for _, want := range []string{"</strong> dead letters · first", "2026-11-20T09:00:00Z", "2026-11-20T11:59:00Z"} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
}
