package console_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	oneJob = `{"items":[{"id":"0190a1b2-0000-7000-8000-000000000000","type":"t","queue":"q","state":"queued","attempt":0,"max_attempts":1,"created_at":"2026-11-20T11:50:00Z","run_at":"2026-11-20T11:50:00Z"}],"next_page_token":null}`
	moving = `{"id":"b-1","action":"move","filter":{"queue":"mails","state":["queued","scheduled"],"metadata":{"order":"<7>"}},"to":{"queue":"slow"},"rate_per_second":100,"state":"running",
		"matched":10000,"matched_capped":true,"done":2400,"refused":100,"refusals":{"job_started":98,"queue_full":2},"waiting":"active_cap_reached","error":null,
		"created_at":"2026-11-20T11:59:00Z","updated_at":"2026-11-20T11:59:30Z","ended_at":null}`
	prioritized = `{"id":"b-2","action":"set_priority","filter":{"created_after":"2026-11-20T11:00:00Z"},"to":{"priority":0},"rate_per_second":null,"state":"failed",
		"matched":1,"matched_capped":false,"done":0,"refused":0,"refusals":{},"waiting":null,"error":"Eight <steps> failed.",
		"created_at":"2026-11-20T11:58:00Z","updated_at":"2026-11-20T11:58:30Z","ended_at":"2026-11-20T11:58:40Z"}`
)

// The list of jobs offers what is for jobs of the states of its filter, to keys that may, with the filter.
func TestBulkActionsOfAFilter(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"GET /v1/jobs": oneJob}}
	send := open(t, f)
	const live, ofEnded = "cancel set_priority run_now delay move", "rerun delete"
	option := regexp.MustCompile(`<option value="([a-z_]+)">`)
	for query, want := range map[string]string{
		"": live + " " + ofEnded, "?queue=mails": live + " " + ofEnded, "?state=queued&state=running": live, "?state=cancelled&state=dead_letter": ofEnded, "?state=queued&state=completed": "",
	} {
		status, text := send(http.MethodGet, "/console/jobs"+query)
		holds(t, status, text, `<a class="button plain" href="/console/bulk">`)
		var offered []string
		for _, one := range option.FindAllStringSubmatch(text, -1) {
			offered = append(offered, one[1])
		}
		if got := strings.Join(offered, " "); got != want || (want == "") != strings.Contains(text, "no action is for both") {
			t.Errorf("%q offers %q, want %q", query, got, want)
		}
	}
	status, text := send(http.MethodGet, "/console/jobs?state=queued&state=running&user=+%3Cada%3E+&metadata=a%3Db")
	holds(t, status, text, `action="/console/bulk/confirm"`, `<input type="hidden" name="state" value="queued"><input type="hidden" name="state" value="running">`,
		`<input type="hidden" name="user" value="&lt;ada&gt;">`, `<input type="hidden" name="metadata" value="a=b">`, ">All that match<")
	f.answers["GET /v1/whoami"] = reader
	if status, text := send(http.MethodGet, "/console/jobs"); status != http.StatusOK || strings.Contains(text, "/console/bulk/confirm") {
		t.Errorf("%d, a form for a reader in %s", status, text)
	}
}

// The question has the number of the dry run, the filter in words, and an input for what the action needs.
func TestConfirmABulkAction(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"POST /v1/bulk": `{"matched":3800,"matched_capped":false}`, "GET /v1/queues": `{"items":[{"name":"slow"}],"next_page_token":null}`}}
	send := open(t, f)
	for query, want := range map[string][]string{
		"do=cancel&queue=mails&state=queued": {
			`{"action":"cancel","filter":{"queue":"mails","state":["queued"]},"dry_run":true}`, "3 800 jobs would be cancelled.", `<span class="tag">queue mails</span> <span class="tag">state queued</span>`,
			"running ones are asked to stop", `<button class="bad" name="do" value="cancel">Cancel: 3 800 jobs</button>`, `href="/console/jobs?queue=mails&amp;state=queued">Back<`,
		},
		"do=set_priority": {`"to":{"priority":0},"dry_run":true`, "every job", `name="to.priority" required`, "0 to 9, higher first"},
		"do=delay":        {`"to":{"delay_ms":0},"dry_run":true`, `name="to.delay" required`},
		"do=move":         {`"to":{"queue":"default"},"dry_run":true`, `name="to.queue" required`, `<option value="slow">`},
		"do=run_now":      {`"action":"run_now"`, "made ready to run"},
		"do=rerun":        {`"action":"rerun"`, "as a new job"},
		"do=delete":       {`"action":"delete"`, "This cannot be undone."},
	} {
		status, text := send(http.MethodGet, "/console/bulk/confirm?"+query)
		holds(t, status, text, want[1:]...)
		if sent := f.sent[len(f.sent)-1]; !strings.Contains(sent, want[0]) {
			t.Errorf("%s sends %s", query, sent)
		}
		if strings.Contains(text, `name="to.`) != strings.Contains(want[0], `"to"`) {
			t.Errorf("the inputs of %s: %s", query, text)
		}
	}
	f.answers["POST /v1/bulk"] = `{"matched":10000,"matched_capped":true}`
	status, text := send(http.MethodGet, "/console/bulk/confirm?do=cancel")
	holds(t, status, text, "At least 10 000 jobs would be cancelled.", "Cancel: 10 000&#43; jobs")
	f.answers["POST /v1/bulk"] = `{"matched":0,"matched_capped":false}`
	if status, text := send(http.MethodGet, "/console/bulk/confirm?do=cancel"); status != http.StatusOK || strings.Contains(text, `<form method="post"`) {
		t.Errorf("%d, a form for none: %s", status, text)
	}
	if status, _ := send(http.MethodGet, "/console/bulk/confirm?do=explode"); status != http.StatusBadRequest {
		t.Errorf("an unknown action: %d", status)
	}
}

// What was typed is read strictly, and refused by the field; the rest is sent, and leads to the progress.
func TestBeginABulkAction(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"POST /v1/bulk": moving}}
	send := open(t, f)
	_, text := send(http.MethodGet, "/console/session")
	token := formToken.FindStringSubmatch(text)[1]
	post := func(fields ...string) (int, string) {
		t.Helper()
		return send(http.MethodPost, "/console/bulk", slices.Concat([]string{"form", token}, fields)...)
	}
	for want, fields := range map[string][]string{
		`{"action":"move","filter":{"queue":"mails","state":["queued"],"metadata":{"a":"b=c"}},"to":{"queue":"slow"},"rate_per_second":2.5}`: {"do", "move", "queue", "mails", "state", "queued", "metadata", "a=b=c", "to.queue", " slow ", "rate_per_second", "2.5"},
		`{"action":"delay","filter":{},"to":{"delay_ms":1500}}`:                                                                              {"do", "delay", "to.delay", "1.5"},
		`{"action":"set_priority","filter":{"user":"ada"},"to":{"priority":0}}`:                                                              {"do", "set_priority", "user", "ada", "to.priority", "0"},
		`{"action":"cancel","filter":{"type":"t","tag":"x","key":"k"}}`:                                                                      {"do", "cancel", "type", "t", "tag", "x", "key", "k", "to.queue", "slow"},
		`{"action":"delete","filter":{"state":["completed"],"dedupe_key":"once"}}`:                                                           {"do", "delete", "state", "completed", "dedupe_key", "once"},
	} {
		if status, to := post(fields...); status != http.StatusSeeOther || to != "/console/bulk/b-1?note=redrive-started" || f.sent[len(f.sent)-1] != want {
			t.Errorf("%v: %d %s, sent %s", fields, status, to, f.sent[len(f.sent)-1])
		}
	}
	sent := len(f.sent)
	for want, fields := range map[string][]string{
		"<code>to.priority</code> must be":     {"do", "set_priority", "to.priority", "10"},
		"<code>to.queue</code> is needed":      {"do", "move", "queue", "mails"},
		"<code>to.delay</code> &#34;1,5&#34;":  {"do", "delay", "to.delay", "1,5"},
		"<code>rate_per_second</code> must be": {"do", "cancel", "rate_per_second", "0"},
		"<code>filter.state</code> the action": {"do", "cancel", "state", "completed"},
		"The console has no such action":       {"do", "explode"},
	} {
		if status, text := post(fields...); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%v: %d %s", fields, status, text)
		}
	}
	if len(f.sent) != sent {
		t.Errorf("sent %v", f.sent[sent:])
	}
}

// The progress is followed while it runs, with what was refused and why; it can be stopped by keys that may.
func TestProgressOfABulkAction(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{
		"GET /v1/bulk/b-1": moving, "GET /v1/bulk/b-2": prioritized, "POST /v1/bulk/b-1/cancel": moving,
		"GET /v1/bulk": `{"items":[` + moving + `,` + prioritized + `],"next_page_token":"more"}`,
	}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/bulk/b-1")
	holds(t, status, text, `data-live="1000"`, `<progress max="100" value="25"`, "2 400 of 10 000&#43; moved, 100 refused", `98 <a href="/problems/job_started">job started</a>`, `2 <a href="/problems/queue_full">`,
		"the cap on active jobs is full", "<dt>To the queue</dt><dd>slow</dd>", "100 a second", `<span class="tag">metadata order=&lt;7&gt;</span>`, "Stop it",
		`href="/console/jobs?metadata=order%3D%3C7%3E&amp;queue=mails&amp;state=queued&amp;state=scheduled"`, `href="/console/jobs" aria-current="page"`)
	token := formToken.FindStringSubmatch(text)[1]
	if status, to := send(http.MethodPost, "/console/bulk/b-1", "form", token); status != http.StatusSeeOther || to != "/console/bulk/b-1?note=redrive-cancelled" || f.asked[len(f.asked)-1] != "POST /v1/bulk/b-1/cancel" {
		t.Errorf("%d %s %v", status, to, f.asked)
	}
	status, text = send(http.MethodGet, "/console/bulk/b-2")
	holds(t, status, text, "0 of 1 given the priority 0", "<dt>Priority</dt><dd>0</dd>", "Eight &lt;steps&gt; failed.", "<dt>Submitted after</dt>", "<dt>Ended</dt>")
	for _, no := range []string{"Stop it", "data-live", "match now", "every job"} {
		if strings.Contains(text, no) {
			t.Errorf("%q in %s", no, text)
		}
	}
	status, text = send(http.MethodGet, "/console/bulk")
	holds(t, status, text, `<a href="/console/bulk/b-1">Move: 10 000&#43; jobs</a>`, "2 400 done, 100 refused, ", `<a href="/console/bulk/b-2">Set priority: 1 job</a>`, "page_token=more", `data-live="5000"`)
	f.answers["GET /v1/whoami"], f.answers["GET /v1/bulk"] = reader, emptyList
	if status, text := send(http.MethodGet, "/console/bulk/b-1"); status != http.StatusOK || strings.Contains(text, "Stop it") {
		t.Errorf("%d, a form for a reader in %s", status, text)
	}
	status, text = send(http.MethodGet, "/console/bulk")
	holds(t, status, text, "No bulk action in the last 30 days.")
	f.answers["GET /v1/audit"] = `{"items":[{"id":"1","actor":{"kind":"tenant","key_id":"k-9","user":null},"action":"bulk.cancel","object":"b-1","detail":{},"at":"2026-11-20T11:59:00Z"}],"next_page_token":null}`
	status, text = send(http.MethodGet, "/console/audit")
	holds(t, status, text, `href="/console/bulk/b-1"`)
	if status, _ := send(http.MethodGet, "/console/bulk/b-3"); status != http.StatusNotFound {
		t.Errorf("none: %d", status)
	}
}

// A refusal of the API, such as one more than may run, is said in words where it is counted and where it begins.
func TestRefusedBulkActions(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"POST /v1/bulk": "503"}}
	send := open(t, f)
	_, text := send(http.MethodGet, "/console/session")
	token := formToken.FindStringSubmatch(text)[1]
	for _, one := range [][]string{{http.MethodGet, "/console/bulk/confirm?do=cancel"}, {http.MethodPost, "/console/bulk", "form", token, "do", "cancel"}} {
		if status, text := send(one[0], one[1], one[2:]...); status != http.StatusServiceUnavailable || !strings.Contains(text, "Core cannot be reached") {
			t.Errorf("%v: %d %s", one, status, text)
		}
	}
}
