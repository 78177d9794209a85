package workflows_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/commandtest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// fake answers the calls for one workflow, w1, and remembers them.
type fake struct {
	*httptest.Server
	mu sync.Mutex
	// calls are method, path, query and body of each call.
	calls []string
	keys  []string
	// workflow is w1 as it is now; a read ends it with the state ends, if that is set.
	workflow api.WorkflowDetail
	ends     string
}

func newFake(t *testing.T) (*fake, *commandtest.Fixture) {
	t.Helper()
	t.Parallel()
	a, made := "a", api.At(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	later := api.At(made.Add(1500 * time.Millisecond))
	s := &fake{workflow: api.WorkflowDetail{
		Workflow: api.Workflow{
			ID: "w1", Name: "report", State: api.WorkflowRunning, Metadata: map[string]string{"shop": "berlin"}, CreatedAt: made,
			Counts: api.WorkflowCounts{Completed: 1, Blocked: 1},
		},
		Jobs: []api.WorkflowJob{
			{Ref: "a", ID: "j1", Type: "extract", State: api.StateCompleted, After: []api.JobDependency{}, StartedAt: &made, FinishedAt: &later},
			{Ref: "b", ID: "j2", Type: "send", State: api.StateBlocked, After: []api.JobDependency{{JobID: "j1", Ref: &a, State: "completed", OnFailed: api.OnFailedHold}}},
		},
	}}
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, status int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(value)
	}
	mux.HandleFunc("POST /v1/workflows", func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Idempotency-Key"), "again") {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		reply(w, http.StatusAccepted, s.workflow.Workflow)
	})
	mux.HandleFunc("GET /v1/workflows", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, api.Page[api.Workflow]{Items: []api.Workflow{s.workflow.Workflow}})
	})
	mux.HandleFunc("GET /v1/workflows/w1", func(w http.ResponseWriter, _ *http.Request) {
		if s.ends != "" {
			s.workflow.State = s.ends
		}
		reply(w, http.StatusOK, s.workflow)
	})
	mux.HandleFunc("POST /v1/workflows/w1/jobs", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusAccepted, s.workflow.Workflow) })
	mux.HandleFunc("POST /v1/workflows/w1/cancel", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusAccepted, s.workflow.Workflow) })
	mux.HandleFunc("POST /v1/workflows/w1/redrive", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusAccepted, api.DeadLetterResponse{Results: []api.BatchResult{
			{Index: 0, Status: http.StatusAccepted, Job: &api.BatchJob{ID: "j1", State: api.StateQueued}},
			{Index: 1, Status: http.StatusTooManyRequests, Problem: problem.New(problem.ActiveCapReached, "100 of 100 jobs are active.")},
		}})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		problem.New(problem.WorkflowEnded, "It has ended.").Write(w)
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s, commandtest.On(t, s.URL)
}

func (s *fake) endAs(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = state
}

// last is the last call and its Idempotency-Key.
func (s *fake) last() (call, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[len(s.calls)-1], s.keys[len(s.keys)-1]
}

const diamond = `{"name":"report","jobs":[{"ref":"a","type":"extract","payload":{"day": 1.0}},{"ref":"b","type":"send","after":["a",{"ref":"x","on_failed":"hold"}]}]}`

func TestWorkflowSubmit(t *testing.T) {
	s, f := newFake(t)
	file := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(file, []byte(diamond), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Want(0, []string{"w1", "running", "report", "2026-11-20T12:00:00Z"}, "workflow", "submit", file)
	call, key := s.last()
	const sent = `POST /v1/workflows {"name":"report","jobs":[{"ref":"a","type":"extract","payload":{"day":1.0}},{"ref":"b","type":"send","after":[{"ref":"a"},{"ref":"x","on_failed":"hold"}]}]}`
	if call != sent || len(key) < 20 {
		t.Errorf("sent %s under %q", call, key)
	}
	r := f.RunWith(t.Context(), diamond, "workflow", "submit", "-", "--idempotency-key", "k-again", "-o", "json")
	if call, key = s.last(); call != sent || key != "k-again" || !strings.Contains(r.Err, "This key was used before") {
		t.Errorf("sent %s under %q: %+v", call, key, r)
	}
	if made := commandtest.Decode[api.Workflow](f, r.Out); made.ID != "w1" {
		t.Errorf("%s", r.Out)
	}
}

func TestWorkflowSubmitRefusals(t *testing.T) {
	s, f := newFake(t)
	for text, want := range map[string]string{
		"":                               "is empty",
		`{"jobs":[}`:                     "at byte 10",
		`{"jobs":[{"after":[{"x":1}]}]}`: `unknown field "x"`,
		`{"job":[]}`:                     `unknown field "job"`,
		`{"jobs":[]} {}`:                 "more than one",
	} {
		r := f.RunWith(t.Context(), text, "workflow", "submit", "-")
		if r.Code != 2 || !strings.Contains(r.Err, want) {
			t.Errorf("%s: %+v does not say %q", text, r, want)
		}
	}
	f.Want(2, []string{"no such file"}, "workflow", "submit", "/no/such/file")
	f.Want(2, []string{"missing FILE"}, "workflow", "submit")
	f.Want(2, []string{"ID FILE"}, "workflow", "add", "w1")
	f.Want(2, []string{"--idempotency-key is empty"}, "workflow", "submit", "-", "--idempotency-key", "")
	if len(s.calls) > 0 {
		t.Errorf("called %q", s.calls)
	}
}

func TestWorkflowSubmitWaits(t *testing.T) {
	s, f := newFake(t)
	r := f.RunWith(t.Context(), diamond, "workflow", "submit", "-", "--wait-timeout", "100ms")
	if r.Code != 4 || !strings.Contains(r.Err, "has not ended within 100ms and continues: 1 completed, 1 blocked") || r.Out != "" {
		t.Errorf("%+v", r)
	}
	s.endAs(api.WorkflowCompleted)
	if r = f.RunWith(t.Context(), diamond, "workflow", "submit", "-", "--wait"); r.Code != 0 || !strings.Contains(r.Out, "✓ a") {
		t.Errorf("%+v", r)
	}
	s.endAs(api.WorkflowFailed)
	f.Want(1, []string{"✓ a", "workflow w1 ended as failed: 1 completed, 1 blocked"}, "workflow", "get", "w1", "--wait")
	f.Want(2, []string{"must not be negative"}, "workflow", "get", "w1", "--wait-timeout", "-1s")
}

func TestWorkflowGet(t *testing.T) {
	_, f := newFake(t)
	const want = `id        w1
state     running
name      report
jobs      1 completed, 1 blocked
metadata  shop=berlin
created   2026-11-20T12:00:00Z

  REF  STATE      TOOK  TYPE     ID  IF ONE BEFORE FAILS
✓ a    completed  1.5s  extract  j1
◌ b    blocked          send     j2  hold (a)
`
	if got := f.Must("workflow", "get", "w1"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	f.Want(0, []string{"AFTER", "2026-11-20T12:00:01Z"}, "workflow", "get", "w1", "--jobs")
	for _, args := range [][]string{{}, {"--jobs"}, {"--jobs", "-o", "json"}} {
		got := commandtest.Decode[api.WorkflowDetail](f, f.Must(append([]string{"workflow", "get", "w1", "-o", "json"}, args...)...))
		if len(got.Jobs) != 2 || got.Jobs[1].After[0].OnFailed != api.OnFailedHold {
			t.Errorf("%+v", got)
		}
	}
	f.Want(1, []string{"was refused"}, "workflow", "get", "w2")
}

func TestWorkflowListAddCancelRedrive(t *testing.T) {
	s, f := newFake(t)
	f.Want(0, []string{"ENDED", "w1"}, "workflow", "list", "--state", "failed", "--name", "report", "--limit", "3")
	if call, _ := s.last(); call != "GET /v1/workflows?name=report&page_size=3&state=failed" {
		t.Errorf("called %s", call)
	}
	r := f.RunWith(t.Context(), `{"jobs":[{"ref":"c","type":"check","after":["a"]}]}`, "workflow", "add", "w1", "-", "--idempotency-key", "k")
	if call, key := s.last(); r.Code != 0 || key != "k" || call != `POST /v1/workflows/w1/jobs {"jobs":[{"ref":"c","type":"check","after":[{"ref":"a"}]}]}` {
		t.Errorf("called %s: %+v", call, r)
	}
	if r = f.RunWith(t.Context(), `{"jobs":[]}`, "workflow", "add", "w2", "-"); r.Code != 1 || !strings.Contains(r.Err, "workflow_ended (409)") {
		t.Errorf("%+v", r)
	}
	f.Want(0, []string{"Jobs of it still run", "w1"}, "workflow", "cancel", "w1")
	f.Want(1, []string{"1 queued again, 1 refused", "active_cap_reached: 100 of 100"}, "workflow", "redrive", "w1")
	r = f.Run("workflow", "redrive", "w1", "-o", "json")
	if answer := commandtest.Decode[api.DeadLetterResponse](f, r.Out); r.Code != 1 || len(answer.Results) != 2 {
		t.Errorf("%+v", r)
	}
}
