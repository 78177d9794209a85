package console_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const waitingID = "0190a1b2-0000-7000-8000-000000000001"

// waitingAPI has a job that waits for two signals, among others.
func waitingAPI() *fake {
	const job = `"id":"` + waitingID + `","type":"approve","queue":"q","state":"waiting","attempt":0,"max_attempts":3,"epoch":1,"created_at":"2026-11-20T11:50:00Z"`
	return &fake{answers: map[string]string{
		"GET /v1/jobs/" + waitingID + "/explain": `{"state":"waiting","because":[{"code":"signal","detail":"The job waits for a signal: approved, rejected.","frees":"A signal, or the time wait_until.","until":"2026-11-21T12:00:00Z"}],
			"job":{` + job + `,"waiting_for":["approved","rejected"],"wait_until":"2026-11-21T12:00:00Z"},"attempts":[]}`,
		"GET /v1/jobs":     `{"items":[{` + job + `,"waiting_for":["approved","rejected"],"wait_until":"2026-11-21T12:00:00Z"},{` + job + `,"waiting_for":[],"wait_until":"2026-11-20T12:05:00Z"}],"next_page_token":null}`,
		"GET /v1/queues":   `{"items":[{"name":"q","mode":"pull","depth":{"waiting":4711},"depth_capped":["waiting"]}],"next_page_token":null}`,
		"GET /v1/queues/q": `{"name":"q","mode":"pull","depth":{"waiting":4711,"scheduled":1},"depth_capped":["waiting"]}`,
		"GET /v1/limits":   `{"policies":[],"caps":[]}`, "GET /v1/types": emptyList, "GET /v1/stats": counts, "GET /v1/audit": emptyList,
		"GET /v1/workflows/w": `{"id":"w","name":"n","state":"running","created_at":"2026-11-20T11:50:00Z","counts":{"waiting":1,"blocked":1},"jobs":[
			{"id":"b","ref":"after","type":"t","state":"blocked","after":[{"job_id":"a","state":"waiting"}]},{"id":"a","ref":"ask","type":"t","state":"waiting","after":[]}]}`,
		"GET /v1/workflows": emptyList,
	}}
}

// Waiting is a state as the others are: with a shape, a colour and a word, in every list and count.
func TestWaitingIsShown(t *testing.T) {
	t.Parallel()
	send := open(t, waitingAPI())
	for path, wanted := range map[string][]string{
		"/console/jobs": {
			`<label class="chip s-waiting"><input type="checkbox" name="state" value="waiting" >`, `<span class="state s-waiting"><svg`,
			`waits for approved, rejected, ends <time datetime="2026-11-21T12:00:00Z"`, `sleeps, wakes <time datetime="2026-11-20T12:05:00Z"`,
		},
		"/console/jobs?state=waiting": {`value="waiting" checked>`},
		"/console":                    {`<a href="/console/jobs?state=waiting"><span class="figure">` + "4\u202f711&#43;"},
		"/console/queues":             {`data-label="Waiting">` + "4\u202f711&#43;"},
		"/console/queues/q":           {`<a href="/console/jobs?queue=q&amp;state=waiting"><span class="figure">` + "4\u202f711&#43;", `<rect class="f-waiting"`},
		"/console/workflows/w":        {`<rect class="f-waiting"`, `class="g-waiting"`, `<a href="/console/jobs/a">Why ask waits</a>`, `waits for a`},
		"/console/jobs/" + waitingID: {
			`<h2>Why it waits</h2>`, `The job waits for a signal: approved, rejected.`, `<dt>Waits for</dt><dd><code>approved</code>, <code>rejected</code>; until <time datetime="2026-11-21T12:00:00Z"`,
		},
	} {
		status, text := send(http.MethodGet, path)
		for _, want := range wanted {
			if status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %d, no %q in %s", path, status, want, text)
			}
		}
	}
	_, text := send(http.MethodGet, "/console/jobs")
	drawn := map[string]string{}
	for _, chip := range regexp.MustCompile(`s-(\w+)"><input[^>]*><svg[^>]*>(.*?)</svg>`).FindAllStringSubmatch(text, -1) {
		if other := drawn[chip[2]]; other != "" || chip[2] == "" {
			t.Errorf("%s is drawn as %q is: %q", chip[1], other, chip[2])
		}
		drawn[chip[2]] = chip[1]
	}
	if len(drawn) != 8 {
		t.Errorf("the states have these shapes: %v", drawn)
	}
}

// A signal is sent by who may submit, as the API takes it; what the API refuses is said.
func TestSendingASignal(t *testing.T) {
	t.Parallel()
	f := waitingAPI()
	send := open(t, f)
	const page, form = "/console/jobs/" + waitingID, `name="do" value="signal"`
	if _, text := send(http.MethodGet, page); strings.Contains(text, form) {
		t.Errorf("a key without the scope submit has the form: %s", text)
	}
	f.answers["GET /v1/whoami"] = `{"tenant":"t","user":null,"scopes":["read","submit"],"plan":"p","key_id":"k"}`
	status, text := send(http.MethodGet, page)
	for _, want := range []string{form, `<input id="signal-name" name="name" value="approved"`, `<option value="rejected">`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	token := formToken.FindStringSubmatch(text)[1]
	f.answers["POST /v1/jobs/"+waitingID+"/signals"] = `{"name":"approved","at":"2026-11-20T12:00:00Z","first":true}`
	f.sent = nil
	for _, one := range []struct {
		name, data, first, sent, note string
	}{
		{" approved ", "", "true", `{"name":"approved"}`, "job-signalled"},
		{"rejected", ` {"why": "<no>"} `, "false", `{"name":"rejected","data":{"why":"<no>"}}`, "job-signalled-before"},
	} {
		f.answers["POST /v1/jobs/"+waitingID+"/signals"] = `{"name":"x","at":"2026-11-20T12:00:00Z","first":` + one.first + `}`
		f.sent = nil
		if status, text := send(http.MethodPost, page, "form", token, "do", "signal", "name", one.name, "data", one.data); status != http.StatusSeeOther || text != page+"?note="+one.note || !slices.Equal(f.sent, []string{one.sent}) {
			t.Errorf("%d %s, sent %q", status, text, f.sent)
		}
	}
	f.sent = nil
	if status, text := send(http.MethodPost, page, "form", token, "do", "signal", "name", "approved", "data", "{fine}"); status != http.StatusBadRequest || !strings.Contains(text, "not JSON") || f.sent != nil {
		t.Errorf("%d %s, sent %q", status, text, f.sent)
	}
	f.answers["POST /v1/jobs/"+waitingID+"/signals"] = "503"
	if status, text := send(http.MethodPost, page, "form", token, "do", "signal", "name", "approved"); status != http.StatusServiceUnavailable || !strings.Contains(text, "Core cannot be reached") {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := send(http.MethodPost, page, "form", "other", "do", "signal", "name", "approved"); status != http.StatusForbidden {
		t.Errorf("with a form of another session: %d", status)
	}
	sleeps := strings.Replace(f.answers["GET /v1/jobs/"+waitingID+"/explain"], `["approved","rejected"]`, "[]", 1)
	f.answers["GET /v1/jobs/"+waitingID+"/explain"] = sleeps
	if _, text := send(http.MethodGet, page); strings.Contains(text, form) || !strings.Contains(text, "<dt>Sleeps</dt><dd>until <time") {
		t.Errorf("a job that sleeps: %s", text)
	}
}
