package console_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A redriven job was dead until its redrive, and counts its attempts again. Who redrove it is said to a key that may read the
// audit log; what is not known is not said.
func TestTimelineOfARedrivenJob(t *testing.T) {
	t.Parallel()
	const explanation = `{"state":"completed","because":[],"job":{"id":"0190a1b2-0000-7000-8000-000000000000","type":"t","queue":"q","state":"completed","attempt":1,"max_attempts":1,"epoch":2,"redrives":1,
		"created_at":"2026-11-20T11:50:00Z","started_at":"2026-11-20T11:54:00Z","finished_at":"2026-11-20T11:55:00Z","metadata":{"note":""},"result":{"name":""}},"attempts":[
		{"attempt":1,"epoch":1,"kind":"failed","started_at":"2026-11-20T11:50:00Z","ended_at":"2026-11-20T11:51:00Z","error":{"type":"E","message":"it broke"}},
		{"attempt":1,"epoch":2,"kind":"completed","started_at":"2026-11-20T11:54:00Z","ended_at":"2026-11-20T11:55:00Z"}]}`
	entry := func(object, detail string) string {
		return `{"items":[{"id":"1","actor":{"kind":"tenant","key_id":"k-9","user":null},"action":"dead_letter.redrive","object":` + object + `,"detail":` + detail + `,"at":"2026-11-20T11:53:17Z"}],"next_page_token":null}`
	}
	f := &fake{answers: map[string]string{"GET /v1/jobs/j/explain": explanation}}
	send := open(t, f)
	page := func() string {
		t.Helper()
		status, text := send(http.MethodGet, "/console/jobs/j")
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return strings.ReplaceAll(text, "\u00a0", " ")
	}
	want := func(text string, all ...string) {
		t.Helper()
		for _, one := range all {
			if !strings.Contains(text, one) {
				t.Errorf("no %q in %s", one, text)
			}
		}
	}
	lives := []string{"<h3>Redrive 1</h3>", "<span>Attempt 1 failed</span>", "<span>Redrive 1, attempt 1 completed</span>", "<strong>Attempt 1</strong>", "<strong>Redrive 1, attempt 1</strong>", "redriven once"}
	const dead, by = `<span>Dead</span> <span class="took">2 min 17 s</span>`, "Redriven by key k-9, <time"
	for _, list := range []string{entry(`"0190a1b2-0000-7000-8000-000000000000"`, "{}"), entry("null", `{"count":2,"ids":["x","0190a1b2-0000-7000-8000-000000000000"]}`)} {
		f.answers["GET /v1/audit"] = list
		text := page()
		want(text, slices.Concat(lives, []string{dead, by, `<span>Waited</span> <span class="took">43 s</span>`, "11:53:17"})...)
		want(text, `<dt>note</dt><dd>""</dd>`, `<span class="v-string">""</span>`)
	}
	unknown := slices.Concat(lives, []string{`<span>Dead or waiting</span> <span class="took">3 min</span>`, "When it was redriven is not known."})
	for _, list := range []string{emptyList, "503", entry("null", `{"count":1,"ids":["x"]}`)} {
		f.answers["GET /v1/audit"] = list
		if text := page(); strings.Contains(text, "<span>Dead</span>") || strings.Contains(text, "<span>Waited</span>") {
			t.Errorf("more than is known in %s", text)
		} else {
			want(text, unknown...)
		}
	}
	f.answers["GET /v1/whoami"], f.asked = `{"tenant":"t","user":null,"scopes":["read"],"plan":"p","key_id":"k"}`, nil
	want(page(), unknown...)
	if strings.Contains(strings.Join(f.asked, " "), "/v1/audit") {
		t.Errorf("a key that may not read the audit log asked %v", f.asked)
	}
}
