package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
)

const (
	typeVersions = `{"items":[{"type":"mail.send","version":2,"checks_payload":true,"checks_results":true,"created_at":"2026-11-20T11:00:00Z"},{"type":"mail.send","version":1,"created_at":"2026-11-20T10:00:00Z"}],"next_page_token":null}`
	typeNewest   = `{"type":"mail.send","version":2,"description":"Sends <mail>.","payload_schema":{"required":["to"]},"result_schema":{"type":"object"},"check_results":true,"examples":[{"to":"ada"}],"defaults":{"queue":"mails","retry":{"base_ms":7}},"created_at":"2026-11-20T11:00:00Z"}`
	typeOld      = `{"type":"mail.send","version":1,"description":"","payload_schema":null,"result_schema":{"type":"object"},"check_results":false,"examples":[],"defaults":{},"created_at":"2026-11-20T10:00:00Z"}`
)

func TestTypes(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"GET /v1/types": emptyList, "GET /v1/types/mail.send": typeNewest, "GET /v1/types/mail.send/versions": typeVersions}}
	send := open(t, f)
	shows := func(path string, wanted []string, unwanted ...string) {
		t.Helper()
		status, text := send(http.MethodGet, path)
		for _, want := range wanted {
			if status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %d, no %q in %s", path, status, want, text)
			}
		}
		for _, other := range unwanted {
			if strings.Contains(text, other) {
				t.Errorf("%s has %q", path, other)
			}
		}
	}
	shows("/console/types", []string{"No job type is described yet", "forgequeue type set"})
	f.answers["GET /v1/types"] = typeVersions
	shows("/console/types", []string{`href="/console/types/mail.send"`, "payloads and results", "nothing"})
	shows("/console/types/mail.send", []string{
		"<dt>Version</dt><dd>2</dd>", "Sends &lt;mail&gt;.", `<span class="name">required</span>`, "Example 1", "mails", "base_ms", "/console/jobs?type=mail.send",
		"/console/types/mail.send?version=1", "forgequeue type set mail.send",
	}, "no longer in force", "they are not checked")
	if last := f.asked[len(f.asked)-2:]; !strings.HasPrefix(last[0], "GET /v1/types/mail.send") || !strings.HasPrefix(last[1], "GET /v1/types/mail.send/versions") {
		t.Errorf("asked %v", f.asked)
	}
	f.answers["GET /v1/types/mail.send"] = typeOld
	shows("/console/types/mail.send?version=1", []string{"no longer in force", "Payloads are not checked", "they are not checked", "There are none"})
	if asked := strings.Join(f.asked, " "); !strings.Contains(asked, "/v1/types/mail.send?version=1") {
		t.Errorf("asked %v", f.asked)
	}
	f.answers["GET /v1/whoami"] = `{"tenant":"t","user":null,"scopes":["read"],"plan":"p","key_id":"k"}`
	shows("/console/types/mail.send", []string{"<dt>Version</dt><dd>1</dd>"}, "forgequeue type set", `name="do"`)
	if status, _ := send(http.MethodGet, "/console/types/none"); status != http.StatusNotFound {
		t.Errorf("an unknown type: %d", status)
	}
}

func TestAScheduleShowsTheKeyAndTheCostsOfItsJobs(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{
		"GET /v1/schedules/nightly":      `{"name":"nightly","job":{"type":"t","queue":"q","key":"a&b","costs":{"tokens":1200}}}`,
		"GET /v1/schedules/nightly/runs": emptyList,
	}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/schedules/nightly")
	for _, want := range []string{`href="/console/jobs?queue=q&amp;key=a%26b"`, `<a href="/console/budgets/tokens">tokens</a>: ` + view.Number(1200)} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
}

func TestAScheduleSaysHowItsLastRunEnded(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{
		"GET /v1/schedules/nightly":      `{"name":"nightly","job":{"type":"t","queue":"q"},"last_run":{"at":"2026-11-20T03:00:00Z","job_id":"j","skipped":null}}`,
		"GET /v1/schedules/nightly/runs": `{"items":[{"at":"2026-11-20T03:00:00Z","job_id":"j","skipped":null}],"next_page_token":null}`,
		"GET /v1/jobs/j":                 `{"id":"j","type":"t","state":"dead_letter","last_error":{"type":"IOError","message":"disk <full>"}}`,
	}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/schedules/nightly")
	for _, want := range []string{"The last run", "s-dead_letter", "IOError: disk &lt;full&gt;"} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	delete(f.answers, "GET /v1/jobs/j") // it is kept no longer
	if status, text := send(http.MethodGet, "/console/schedules/nightly"); status != http.StatusOK || strings.Contains(text, "The last run") {
		t.Errorf("%d %s", status, text)
	}
	f.answers["GET /v1/jobs/j"] = "503"
	if status, _ := send(http.MethodGet, "/console/schedules/nightly"); status != http.StatusServiceUnavailable {
		t.Errorf("%d", status)
	}
}

// A list of schedules says in words how the newest runs ended, with one request.
func TestSchedulesSayHowTheirRunsEnded(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"GET /v1/schedules": `{"items":[{"name":"nightly","job":{"type":"t","queue":"q"},"recent_runs":[
		{"at":"2026-11-20T03:00:00Z","job_id":"j1","skipped":null,"state":"dead_letter"},{"at":"2026-11-19T03:00:00Z","job_id":null,"skipped":"overlap","state":null},
		{"at":"2026-11-18T03:00:00Z","job_id":"j3","skipped":null,"state":null}]}],"next_page_token":null}`}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/schedules")
	for _, want := range []string{`href="/console/jobs/j1" title="dead letter"`, `class="unseen">dead letter, `, "skipped: overlap", "no longer kept"} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	if strings.Contains(text, "/console/jobs/j3") || !strings.HasPrefix(f.asked[len(f.asked)-1], "GET /v1/schedules") || !strings.HasPrefix(f.asked[len(f.asked)-2], "GET /v1/whoami") {
		t.Errorf("asked %v for %s", f.asked, text)
	}
}

// A list of schedules has the day and the time of the next run beside how far it is; a paused one has no next run.
func TestSchedulesShowTheClockOfTheNextRun(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"GET /v1/schedules": `{"items":[
		{"name":"nightly","job":{"type":"t","queue":"q"},"next_runs":["2026-11-21T03:00:00Z","2026-11-22T03:00:00Z"]},
		{"name":"held","paused":true,"job":{"type":"t","queue":"q"},"next_runs":["2026-11-23T03:00:00Z"]}],"next_page_token":null}`}}
	status, text := open(t, f)(http.MethodGet, "/console/schedules")
	if status != http.StatusOK || !strings.Contains(text, `data-clock>Sat 21 Nov, 03:00:00 UTC</time>`) || !strings.Contains(text, `title="2026-11-21 03:00:00.000 UTC"`) {
		t.Errorf("%d, no time of the next run in %s", status, text)
	}
	if strings.Contains(text, "22 Nov") || strings.Contains(text, "23 Nov") {
		t.Errorf("more than the next run, or one of a paused schedule: %s", text)
	}
}

func TestAChangeOfATypeLeadsToIt(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{"GET /v1/audit": `{"items":[{"id":"1","at":"2026-11-20T11:00:00Z","actor":{"kind":"tenant"},"action":"type.put","object":"mail.send"}],"next_page_token":null}`}}
	if status, text := open(t, f)(http.MethodGet, "/console/audit"); status != http.StatusOK || !strings.Contains(text, `href="/console/types/mail.send"`) {
		t.Errorf("%d %s", status, text)
	}
}
