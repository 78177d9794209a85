package console_test

import (
	"html"
	"net/http"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A queue whose cap on running jobs is 0 is not said to lack workers.
func TestQueueWithACapOfNone(t *testing.T) {
	t.Parallel()
	queue := func(limit string) string {
		return `{"items":[{"name":"q","mode":"pull","depth":{"queued":3},"active_workers":0,"unserved":[{"type":"t"}],"settings":{"max_running":` + limit + `}}],"next_page_token":null}`
	}
	f := &fake{answers: map[string]string{}}
	send := open(t, f)
	for limit, want := range map[string][2]string{"0": {"its cap on running jobs is 0", "No worker"}, "1": {"No worker takes the type t", "its cap"}} {
		f.answers["GET /v1/queues"] = queue(limit)
		if status, text := send(http.MethodGet, "/console/queues"); status != http.StatusOK || !strings.Contains(text, want[0]) || strings.Contains(text, want[1]) {
			t.Errorf("%s: %d %s", limit, status, text)
		}
	}
}

// Each limit says what it counts.
func TestLimitsSayWhatTheyMean(t *testing.T) {
	t.Parallel()
	for _, one := range (&api.Limits{}).All() {
		for _, input := range forms.LimitInputs(&api.Limits{}) {
			if input.Name == one.Name && (input.Label == "" || input.Help == "") {
				t.Errorf("%s: %+v", one.Name, input)
			}
		}
	}
	for name := range charts.LimitLabels {
		if charts.LimitMeanings[name] == "" && !strings.HasPrefix(name, "queue-") {
			t.Errorf("%s has no meaning", name)
		}
	}
	f := &fake{answers: map[string]string{"GET /v1/limits": `{"policies":[{"name":"tenant-jobs","rate_per_second":20,"burst":40,"remaining":40}],"caps":[{"scope":"user","kind":"running","limit":9,"used":3}]}`}}
	status, text := open(t, f)(http.MethodGet, "/console/limits")
	for _, want := range []string{charts.LimitMeanings["tenant-jobs"], html.EscapeString(charts.LimitMeanings["user-running"]), "256 KiB"} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
}
