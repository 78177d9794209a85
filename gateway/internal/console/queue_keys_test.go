package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
)

// The keys of a queue have their counts, their jobs, and the dead letter that stops one.
func TestKeysOfAQueue(t *testing.T) {
	t.Parallel()
	f := &fake{answers: map[string]string{
		"GET /v1/queues/q/keys": `{"items":[{"key":"a&b","waiting":12000,"ready":1,"running":2,"held_by":"0190a1b2-0000-7000-8000-000000000000"},{"key":"c","waiting":0,"ready":0,"running":1,"held_by":null}],"next_page_token":"more"}`,
	}}
	send := open(t, f)
	status, text := send(http.MethodGet, "/console/queues/q/keys?waiting=1")
	for _, want := range []string{view.Number(12_000), `href="/console/jobs?key=a%26b&amp;queue=q"`, `href="/console/jobs/0190a1b2-0000-7000-8000-000000000000"`, "page_token=more", `value="1" selected`} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	if asked := f.asked[len(f.asked)-1]; !strings.Contains(asked, "min_waiting=1") {
		t.Errorf("asked %q", asked)
	}
	f.answers["GET /v1/queues/q/keys"] = emptyList
	if status, text = send(http.MethodGet, "/console/queues/q/keys"); status != http.StatusOK || !strings.Contains(text, "No job with a key waits or runs.") {
		t.Errorf("%d %s", status, text)
	}
}
