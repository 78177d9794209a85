package console_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	tokens = `{"name":"tokens","unit":"tokens","amount":400000,"per_ms":60000,"window":null,"timezone":"UTC","burst":1000,"by":null,"available":-250,"reserved":700,"waiting":10000,
		"closed_until":"2026-11-20T12:00:20Z","created_at":"2026-11-20T11:00:00Z","updated_at":"2026-11-20T11:00:00Z"}`
	money = `{"name":"a:money","unit":"cents","amount":5000,"per_ms":null,"window":"day","timezone":"Europe/Berlin","burst":null,"by":"user","available":null,"reserved":0,"waiting":3,
		"closed_until":null,"created_at":"2026-11-20T11:00:00Z","updated_at":"2026-11-20T11:00:00Z"}`
	noUsage = `{"budget":"a:money","unit":"cents","days":[]}`
)

var (
	formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)
	reader    = `{"tenant":"t","user":null,"scopes":["read"],"plan":"p","key_id":"k"}`
)

func holds(t *testing.T, status int, text string, wanted ...string) {
	t.Helper()
	text = strings.NewReplacer("\u00a0", " ", "\u202f", " ").Replace(text)
	for _, want := range wanted {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
}

// The list has each budget in words, with what is available, what waits, and until when it is closed.
func TestBudgets(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"GET /v1/budgets": `{"items":[` + money + `,` + tokens + `],"next_page_token":"more"}`}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/budgets")
	holds(t, status, text, `<a href="/console/budgets/a:money">a:money</a>`, ">5 000 cents a day (Europe/Berlin), by user<", ">for each user<", `data-label="Jobs that wait">3<`,
		">400 000 tokens a minute, 1 000 at once<", `<progress max="100" value="100" aria-label="Used or reserved of tokens">`, ">−250 of 1 000<", ">700<", ">10 000&#43;<",
		`Closed until <time datetime="2026-11-20T12:00:20Z"`, "page_token=more", `href="/console/budgets" aria-current="page"`, "New budget…")
	f.answers["GET /v1/whoami"] = reader
	if status, text = send(http.MethodGet, "/console/budgets"); status != http.StatusOK || strings.Contains(text, `<form method="post"`) {
		t.Errorf("%d, a form for a reader in %s", status, text)
	}
	f.answers["GET /v1/budgets"] = emptyList
	status, text = send(http.MethodGet, "/console/budgets")
	holds(t, status, text, "A budget limits how much of something your jobs use in a time")
	if strings.Contains(text, `<form method="post"`) {
		t.Errorf("a form for a reader in %s", text)
	}
}

// A budget's time is said in words.
func TestTimesOfBudgets(t *testing.T) {
	t.Parallel()
	for settings, want := range map[string]string{
		`"per_ms":1000`: "7 calls a second<", `"per_ms":3600000`: "7 calls an hour<", `"per_ms":90000,"by":"key"`: "7 calls in 1 min 30 s, by key<",
		`"window":"hour","timezone":"UTC"`: "7 calls an hour (UTC)<", `"window":"month","timezone":"Asia/Tokyo"`: "7 calls a month (Asia/Tokyo)<",
	} {
		f := &fake{answers: map[string]string{"GET /v1/budgets": `{"items":[{"name":"n","unit":"calls","amount":7,` + settings + `}],"next_page_token":null}`}}
		status, text := open(t, f)(http.MethodGet, "/console/budgets")
		holds(t, status, text, want)
	}
}

// A budget's page has its use, its settings and the last thirty days, the newest first; a reader sees no forms.
func TestABudget(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{
		"GET /v1/budgets/tokens":       tokens,
		"GET /v1/budgets/tokens/usage": `{"budget":"tokens","unit":"tokens","days":[{"day":"2026-11-18","reserved":5000,"used":4000,"overdrawn":0},{"day":"2026-11-20","reserved":900,"used":1150,"overdrawn":250}]}`,
	}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/budgets/tokens")
	holds(t, status, text, ">400 000 tokens a minute, 1 000 at once<", ">1 250 of 1 000<", "−250 tokens available: an attempt has used more than it had reserved", ">10 000&#43;<", "1 min after the start of its attempt",
		"a worker reported that the destination refuses", "Saving the settings opens it.", `name="amount" value="400000"`, `name="per" value="60"`, "<option selected>none</option>", `name="burst" value="1000"`, `data-label="Overdrawn">250<`, "Delete tokens")
	if strings.Index(text, "2026-11-20</th>") > strings.Index(text, "2026-11-18</th>") {
		t.Error("the newest day is not the first")
	}
	if strings.Contains(text, "f-subject") {
		t.Error("it can be asked for a user of a budget that has one amount")
	}
	if want := "GET /v1/budgets/tokens/usage?from=2026-10-22&to=2026-11-20"; !slices.Contains(f.asked, want) {
		t.Errorf("asked %q, want %q", f.asked, want)
	}
	if status, to := send(http.MethodGet, "/console/budgets/tokens?subject=ada"); status != http.StatusSeeOther || to != "/console/budgets/tokens" {
		t.Errorf("%d %s", status, to)
	}
	f.answers["GET /v1/whoami"] = reader
	if status, text = send(http.MethodGet, "/console/budgets/tokens"); status != http.StatusOK || strings.Contains(text, `<form method="post"`) || strings.Contains(text, "opens it") {
		t.Errorf("%d, a form for a reader in %s", status, text)
	}
}

// Of a budget by user one user's amount can be looked at.
func TestABudgetOfOneUser(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"GET /v1/budgets/a:money": money, "GET /v1/budgets/a:money/usage": noUsage}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/budgets/a:money")
	holds(t, status, text, "Each user has an amount of its own: look at one above.", `<label for="f-subject">User</label>`, "Nothing was used.", `<dd>3 <span class="quiet">of all users together</span>`, "at the end of the day, Europe/Berlin")
	f.answers["GET /v1/budgets/a:money"] = strings.Replace(money, `"available":null`, `"available":1200`, 1)
	status, text = send(http.MethodGet, "/console/budgets/a:money?subject=%3Cada%3E")
	holds(t, status, text, "Used or reserved by <code>&lt;ada&gt;</code>", ">3 800 of 5 000<", "1 200 cents available<", `name="subject" value="&lt;ada&gt;"`)
	if !slices.Contains(f.asked, "GET /v1/budgets/a:money?subject=%3Cada%3E") {
		t.Errorf("asked %q", f.asked)
	}
}

// A budget is created where none has its name, changed without who it is by, and deleted.
func TestFormsOfBudgets(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"GET /v1/budgets": emptyList, "PUT /v1/budgets/calls": `{}`, "PUT /v1/budgets/a:money": `{}`, "GET /v1/budgets/a:money": money, "DELETE /v1/budgets/a:money": ``}}
	send := open(t, f)
	_, text := send(http.MethodGet, "/console/budgets")
	token := formToken.FindStringSubmatch(text)[1]
	if !strings.Contains(text, `<form method="post" action="/console/budgets" class="fields from-top">`) {
		t.Errorf("no form in %s", text)
	}
	if status, to := send(http.MethodPost, "/console/budgets", "form", token, "once", "1", "name", " calls ", "unit", "calls", "amount", "60", "per", "1.5", "window", "none", "timezone", "", "burst", "", "by", "each key"); status != http.StatusSeeOther || to != "/console/budgets/calls?note=budget-created" {
		t.Errorf("%d %s", status, to)
	}
	if status, text := send(http.MethodPost, "/console/budgets", "form", token, "once", "2", "name", "a:money", "unit", "cents", "amount", "5", "per", "1"); status != http.StatusBadRequest || !strings.Contains(text, "a budget has this name") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := send(http.MethodPost, "/console/budgets", "form", token, "once", "3", "name", "calls", "unit", "calls", "amount", "10,000", "per", "x"); status != http.StatusBadRequest || !strings.Contains(text, "10,000&#34; is not a whole number") || !strings.Contains(text, "<code>per</code>") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := send(http.MethodPost, "/console/budgets", "form", token, "once", "4", "unit", "calls"); status != http.StatusBadRequest || !strings.Contains(text, "must be given") {
		t.Errorf("%d %s", status, text)
	}
	if status, to := send(http.MethodPost, "/console/budgets/a:money", "form", token, "do", "settings", "unit", "cents", "amount", "70", "per", "", "window", "month", "timezone", "UTC"); status != http.StatusSeeOther || to != "/console/budgets/a:money?note=budget-saved" {
		t.Errorf("%d %s", status, to)
	}
	if want := []string{`{"unit":"calls","amount":60,"per_ms":1500,"by":"key"}`, `{"unit":"cents","amount":70,"window":"month","timezone":"UTC","by":"user"}`}; !slices.Equal(f.sent, want) {
		t.Errorf("sent %q, want %q", f.sent, want)
	}
	if status, to := send(http.MethodPost, "/console/budgets/a:money", "form", token, "do", "delete"); status != http.StatusSeeOther || to != "/console/budgets?note=budget-deleted" || f.asked[len(f.asked)-1] != "DELETE /v1/budgets/a:money" {
		t.Errorf("%d %s %q", status, to, f.asked)
	}
	if status, _ := send(http.MethodPost, "/console/budgets/a:money", "form", token, "do", "open"); status != http.StatusBadRequest {
		t.Errorf("an action that there is not: %d", status)
	}
}

// A job's costs lead to their budgets, and why it waits is said in core's sentence.
func TestCostsOfAJob(t *testing.T) {
	t.Parallel()
	const job = `{"id":"0190a1b2-0000-7000-8000-000000000000","type":"t","queue":"q","state":"queued","attempt":0,"max_attempts":2,"epoch":0,"created_at":"2026-11-20T11:50:00Z","run_at":"2026-11-20T11:50:00Z","costs":{"tokens":1500,"a:money":3}}`
	f := &fake{answers: map[string]string{"GET /v1/jobs/j/explain": `{"state":"queued","because":[{"code":"budget","detail":"The budget <tokens> has 7 available.","frees":"Attempts end."}],"job":` + job + `,"attempts":[]}`}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/jobs/j")
	holds(t, status, text, `<li><a href="/console/budgets/a:money">a:money</a>: 3</li><li><a href="/console/budgets/tokens">tokens</a>: 1 500</li>`, "The budget &lt;tokens&gt; has 7 available.", "Attempts end.")
	f.answers["GET /v1/whoami"] = `{"tenant":"t","user":"ada","scopes":["read"],"plan":"p","key_id":"k"}`
	status, text = send(http.MethodGet, "/console/jobs/j")
	holds(t, status, text, `<li>tokens: 1 500</li>`)
	if strings.Contains(text, "/console/budgets") {
		t.Errorf("a user is led to budgets, which it may not see: %s", text)
	}
}

// The costs of a queue are set as text. A form without the field leaves them as they are.
func TestCostsOfAQueue(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{
		"GET /v1/queues/q": `{"name":"q","mode":"pull","depth_capped":[],"unserved":[],"settings":{"types":{},"keys":{},"retry":{},"costs":{"tokens":500,"cents":3}}}`, "PUT /v1/queues/q": `{}`, "GET /v1/stats": `{"items":[]}`,
	}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/queues/q")
	holds(t, status, text, `name="costs" value="cents=3, tokens=500" spellcheck="false"`)
	token := formToken.FindStringSubmatch(text)[1]
	save := func(fields ...string) (int, string) {
		return send(http.MethodPost, "/console/queues/q", append([]string{"form", token, "do", "settings"}, fields...)...)
	}
	for want, fields := range map[string][]string{`"costs":{"calls":1,"tokens":20}`: {"costs", "tokens=20\ncalls=1"}, `"costs":{"cents":3,"tokens":500}`: nil} {
		if status, text := save(fields...); status != http.StatusSeeOther || !strings.Contains(f.sent[len(f.sent)-1], want) {
			t.Errorf("%d %s, sent %s, want %s", status, text, f.sent, want)
		}
	}
	if status, text := save("costs", ""); status != http.StatusSeeOther || strings.Contains(f.sent[len(f.sent)-1], "costs") {
		t.Errorf("%d %s, sent %s", status, text, f.sent)
	}
	sent := len(f.sent)
	if status, text := save("costs", "tokens 20"); status != http.StatusBadRequest || len(f.sent) != sent || !strings.Contains(text, `<code>costs</code> &#34;tokens 20&#34; is not budget=amount: write it such as tokens=1500`) {
		t.Errorf("%d %s", status, text)
	}
}
