package jobs_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A job of a workflow names it, and the jobs that it came after by their refs.
func TestJobOfAWorkflow(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/jobs/j2", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id":"j2","state":"blocked","type":"send","blocked_by":1,"workflow":{"id":"w1","ref":"b"},
			"after":[{"job_id":"j1","ref":"a","state":"running","on_failed":"hold"},{"job_id":"j0","ref":null,"state":"completed","on_failed":"run"}]}`))
	})
	mux.HandleFunc("GET /v1/jobs/j2/parents", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"items":[{"ref":"a","job_id":"j1","state":"completed","result":{"rows":3}},{"ref":null,"job_id":"j0","state":"dead_letter","result":null}]}`))
	})
	mux.HandleFunc("GET /v1/jobs/j2/explain", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"state":"queued","because":[{"code":"rate","detail":"The queue starts at most 5 jobs a second.","frees":"Time passes.",
			"limit":null,"current":null,"of":"queue","until":"2026-01-31T12:00:00Z"}],"ahead":{"count":1200,"capped":false},"estimate":{"starts_in_ms":40034,"drain_per_second":30}}`))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	f := commandtest.On(t, server.URL)
	f.Want(0, []string{"w1 (as b)", "a j1 (running; on failure hold)", "j0 (completed; on failure run)", "blocked by"}, "job", "get", "j2")
	f.Want(0, []string{"queued", "The queue starts at most 5 jobs a second. Ends when: Time passes. Until: 2026-01-31", "In about 40s: 1200 jobs ahead; 30 a second start."}, "job", "why", "j2")
	f.Want(0, []string{"REF", `a    j1  completed    {"rows":3}`, "-    j0  dead_letter  -"}, "job", "parents", "j2")
	parents := commandtest.Decode[api.Page[api.JobParent]](f, f.Must("job", "parents", "j2", "-o", "json"))
	if len(parents.Items) != 2 || commandtest.Compact(t, parents.Items[0].Result) != `{"rows":3}` {
		t.Errorf("%+v", parents)
	}
}
