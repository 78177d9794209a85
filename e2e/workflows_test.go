package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	loop "github.com/forgequeue/forgequeue/shared/worker"
)

const diamond = `{"name": "order", "metadata": {"shop": "berlin"}, "jobs": [
	{"ref": "mail", "type": "mail", "after": ["invoice", {"ref": "parcel", "on_failed": "hold"}]},
	{"ref": "charge", "type": "charge"},
	{"ref": "invoice", "type": "invoice", "after": ["charge"]},
	{"ref": "parcel", "type": "parcel", "after": ["charge"]}]}`

// worker claims and ends jobs by their type.
type worker struct {
	*testing.T
	*client.Client
}

func (w *worker) next(want string) api.ClaimedJob {
	w.Helper()
	claimed, err := w.Claim(w.Context(), api.ClaimRequest{WorkerID: "w1", Queues: []string{"default"}, Types: []string{want}, WaitMS: new(int64(10_000))})
	if err != nil || len(claimed.Jobs) != 1 || claimed.Jobs[0].Type != want {
		w.Fatalf("want %s: %+v %v", want, claimed, err)
	}
	return claimed.Jobs[0]
}

func (w *worker) complete(jobType, result string) {
	w.Helper()
	job := w.next(jobType)
	if _, err := w.Complete(w.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken, Result: json.RawMessage(result)}); err != nil {
		w.Fatal(err)
	}
}

func (w *worker) fail(jobType string) {
	w.Helper()
	job := w.next(jobType)
	if _, err := w.Fail(w.Context(), job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Permanent: true, Error: &api.JobError{Type: "e", Message: "broken"}}); err != nil {
		w.Fatal(err)
	}
}

// A diamond of which a job fails is redriven, and goes on; results flow to the last job.
func TestADiamond(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	w := &worker{t, s.Client(t)}
	status, headers, body := ask(t, s, "POST", "/v1/workflows", diamond, "Idempotency-Key", "order-1")
	id := field[string](t, body, "id")
	if status != 202 || headers.Get("Location") != "/v1/workflows/"+id || field[string](t, body, "state") != api.WorkflowRunning ||
		field[api.WorkflowCounts](t, body, "counts") != (api.WorkflowCounts{Queued: 1, Blocked: 3}) {
		t.Fatalf("%d %s", status, body)
	}
	if _, headers, again := ask(t, s, "POST", "/v1/workflows", diamond, "Idempotency-Key", "order-1"); string(again) != string(body) || headers.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replayed: %s", again)
	}
	w.complete("charge", `{"paid": 17}`)
	// the middle ones are released together, in the order of the request
	w.complete("invoice", `"i-1"`)
	w.fail("parcel")
	detail := func() api.WorkflowDetail {
		t.Helper()
		var shown api.WorkflowDetail
		if _, _, text := ask(t, s, "GET", "/v1/workflows/"+id, ""); json.Unmarshal(text, &shown) != nil {
			t.Fatalf("%s", text)
		}
		return shown
	}
	shown := detail()
	mail := shown.Jobs[0]
	if mail.Ref != "mail" || mail.State != api.StateBlocked || len(mail.After) != 2 || *mail.After[0].Ref != "invoice" || mail.After[1].OnFailed != api.OnFailedHold ||
		shown.Counts != (api.WorkflowCounts{Completed: 2, DeadLetter: 1, Blocked: 1}) || shown.State != api.WorkflowRunning {
		t.Fatalf("%+v", shown)
	}
	status, _, body = ask(t, s, "POST", "/v1/workflows/"+id+"/redrive", "")
	if results := field[[]api.BatchResult](t, body, "results"); status != 202 || len(results) != 1 || results[0].Status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	w.complete("parcel", `{"track": "P7"}`)
	last := w.next("mail")
	if last.Workflow == nil || last.Workflow.ID != id || last.Workflow.Ref != "mail" || len(last.Parents) != 2 || *last.Parents[1].Ref != "parcel" || last.Parents[1].State != api.StateCompleted {
		t.Fatalf("claimed %+v %+v", last.Workflow, last.Parents)
	}
	_, _, body = ask(t, s, "GET", "/v1/jobs/"+last.ID+"/parents", "")
	if parents := field[[]api.JobParent](t, body, "items"); len(parents) != 2 || string(parents[0].Result) != `"i-1"` || string(parents[1].Result) != `{"track":"P7"}` && string(parents[1].Result) != `{"track": "P7"}` {
		t.Fatalf("%s", body)
	}
	if _, err := w.Complete(t.Context(), last.ID, api.CompleteRequest{LeaseToken: last.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if shown = detail(); shown.State != api.WorkflowCompleted || shown.FinishedAt == nil || shown.Metadata["shop"] != "berlin" {
		t.Fatalf("%+v", shown)
	}
	if status, _, body = ask(t, s, "POST", "/v1/workflows/"+id+"/jobs", `{"jobs": [{"ref": "x", "type": "x"}]}`); status != 409 || field[string](t, body, "code") != "workflow_ended" {
		t.Errorf("%d %s", status, body)
	}
	for query, want := range map[string]int{"?state=completed&name=order": 1, "?state=running": 0, "?name=other": 0, "": 1} {
		if _, _, body = ask(t, s, "GET", "/v1/workflows"+query, ""); len(field[[]api.Workflow](t, body, "items")) != want {
			t.Errorf("%s: %s", query, body)
		}
	}
}

// A job after 1,000 others is claimed once they have completed, and its holder reads all of their results.
func TestAJoinOfAThousand(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	w := &worker{t, s.Client(t)}
	parts, refs := client.Workflow(), make([]string, api.MaxWorkflowAfter)
	for i := range refs {
		refs[i] = fmt.Sprint("r", i)
		parts.Add(refs[i], api.SubmitRequest{Type: "part", Payload: json.RawMessage(fmt.Sprint(i))})
	}
	made, err := w.SubmitWorkflow(t.Context(), parts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddToWorkflow(t.Context(), made.ID, client.Workflow().Add("join", api.SubmitRequest{Type: "join"}).After(refs...)); err != nil {
		t.Fatal(err)
	}
	for ended := 0; ended < len(refs); {
		claimed, err := w.Claim(t.Context(), api.ClaimRequest{WorkerID: "w1", Queues: []string{"default"}, Max: new(len(refs)), WaitMS: new(int64(10_000))})
		if err != nil || len(claimed.Jobs) == 0 {
			t.Fatal(claimed, err)
		}
		outcomes := make([]api.OutcomeRequest, len(claimed.Jobs))
		for i, one := range claimed.Jobs {
			outcomes[i] = api.OutcomeRequest{JobID: one.ID, Kind: api.KindComplete, LeaseToken: one.LeaseToken, Result: one.Payload}
		}
		if _, err := w.Outcomes(t.Context(), outcomes); err != nil {
			t.Fatal(err)
		}
		ended += len(outcomes)
	}
	last := w.next("join")
	if len(last.Parents) != len(refs) {
		t.Fatalf("claimed with %d parents", len(last.Parents))
	}
	next := 0
	for parent, err := range client.All(t.Context(), func(ctx context.Context, page client.PageRequest) (api.Page[api.JobParent], error) {
		return w.Parents(ctx, last.ID, page)
	}) {
		if err != nil || *parent.Ref != refs[next] || string(parent.Result) != fmt.Sprint(next) {
			t.Fatalf("in place %d: %+v, %v", next, parent, err)
		}
		next++
	}
	if next != len(refs) {
		t.Errorf("%d parents", next)
	}
	for _, query := range []string{"?page_token=nonsense", "?page_size=201", "?page_size=0", "?limit=1"} {
		if status, _, body := ask(t, s, "GET", "/v1/jobs/"+last.ID+"/parents"+query, ""); status != 400 {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	if _, err := w.Complete(t.Context(), last.ID, api.CompleteRequest{LeaseToken: last.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if shown, err := w.GetWorkflow(t.Context(), made.ID); err != nil || shown.State != api.WorkflowCompleted || len(shown.Jobs) != len(refs)+1 {
		t.Errorf("%s, %v", shown.State, err)
	}
}

// A long chain of jobs runs to its end, each job after the one before it and with its result.
func TestALongChain(t *testing.T) {
	t.Parallel()
	length := 50 // a thousand take two minutes on a slow machine
	if os.Getenv("FORGEQUEUE_FAULTS") == "long" {
		length = api.MaxBatchJobs
	}
	s := stack.Shared(t)
	c := s.Client(t)
	runner, err := loop.New(loop.Options{Client: c, Queues: []string{"default"}, Concurrency: 4, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var ran atomic.Int64
	loop.Handle(runner, "link", func(ctx context.Context, job *loop.Job[int64]) (int64, error) {
		if before := ran.Add(1) - 1; before != job.Payload {
			return 0, fmt.Errorf("it ran after %d others", before)
		}
		if job.Payload == 0 {
			return 0, nil
		}
		var last int64
		parents, err := job.Parents(ctx)
		if err == nil {
			err = parents.Result(fmt.Sprint("r", job.Payload-1), &last)
		}
		return last + 1, err
	})
	working, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- runner.Run(working) }()
	chain := client.Workflow()
	for i := range length {
		chain.Add(fmt.Sprint("r", i), api.SubmitRequest{Type: "link", Payload: json.RawMessage(fmt.Sprint(i)), MaxAttempts: new(1)})
		if i > 0 {
			chain.After(fmt.Sprint("r", i-1))
		}
	}
	begun := time.Now()
	made, err := c.SubmitWorkflow(t.Context(), chain)
	if err != nil {
		t.Fatal(err)
	}
	done, err := c.WaitForWorkflow(t.Context(), made.ID)
	if err != nil || done.State != api.WorkflowCompleted || done.Counts != (api.WorkflowCounts{Completed: length}) {
		t.Fatalf("%s %+v, %v", done.State, done.Counts, err)
	}
	t.Logf("a chain of %d jobs: %v", length, time.Since(begun).Round(time.Millisecond))
	if last := stack.Get(t, c, done.Jobs[length-1].ID); string(last.Result) != fmt.Sprint(length-1) {
		t.Errorf("the last one gave %s", last.Result)
	}
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestAWorkflowGrowsAndIsCancelled(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	w := &worker{t, s.Client(t)}
	_, _, body := ask(t, s, "POST", "/v1/workflows", `{"jobs": [{"ref": "find", "type": "find"}]}`)
	id := field[string](t, body, "id")
	running := w.next("find")
	status, _, body := ask(t, s, "POST", "/v1/workflows/"+id+"/jobs", `{"jobs": [{"ref": "b", "type": "b", "after": ["a"]}, {"ref": "a", "type": "a", "after": ["find"]}]}`, "Idempotency-Key", "more")
	if status != 202 || field[api.WorkflowCounts](t, body, "counts") != (api.WorkflowCounts{Running: 1, Blocked: 2}) {
		t.Fatalf("%d %s", status, body)
	}
	for jobs, want := range map[string]string{
		`[{"ref": "a", "type": "a"}]`:                      "jobs[0].ref",
		`[{"ref": "c", "type": "c", "after": ["nobody"]}]`: "jobs[0].after[0]",
	} {
		if status, _, body = ask(t, s, "POST", "/v1/workflows/"+id+"/jobs", `{"jobs": `+jobs+`}`); status != 400 || refusal(t, body) != "invalid_request "+want {
			t.Errorf("%s: %d %s", jobs, status, body)
		}
	}
	if status, _, body = ask(t, s, "POST", "/v1/workflows/"+id+"/cancel", ""); status != 202 || field[api.WorkflowCounts](t, body, "counts") != (api.WorkflowCounts{Running: 1, Cancelled: 2}) {
		t.Fatalf("%d %s", status, body)
	}
	if _, err := w.Release(t.Context(), running.ID, api.ReleaseRequest{LeaseToken: running.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	if _, _, body = ask(t, s, "GET", "/v1/workflows/"+id, ""); field[string](t, body, "state") != api.WorkflowCancelled {
		t.Errorf("%s", body)
	}
	for _, path := range []string{"/cancel", "/redrive", "/jobs"} {
		if status, _, body = ask(t, s, "POST", "/v1/workflows/01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"+path, map[string]string{"/jobs": `{"jobs": [{"ref": "x", "type": "x"}]}`}[path]); status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

func TestRefusedWorkflows(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	jobs := func(list string) string { return `{"jobs": [` + list + `]}` }
	many := make([]string, 0, api.MaxWorkflowAfter+1)
	for i := range api.MaxWorkflowAfter + 1 {
		many = append(many, fmt.Sprintf(`"r%d"`, i))
	}
	for body, want := range map[string]string{
		jobs(``): "invalid_request jobs",
		jobs(`{"ref": "a", "type": "t", "after": ["b"]}, {"ref": "b", "type": "t", "after": ["c"]}, {"ref": "c", "type": "t", "after": ["a"]}`): "a → c → b → a",
		jobs(`{"ref": "a", "type": "t", "after": ["a"]}`):                  "invalid_request jobs[0].after[0]",
		jobs(`{"ref": "a", "type": "t"}, {"ref": "a", "type": "t"}`):       "invalid_request jobs[1].ref",
		jobs(`{"ref": "a", "type": "t", "after": ["b"]}`):                  "invalid_request jobs[0].after[0]",
		jobs(`{"ref": "a", "type": "t", "after": [{"ref": "b", "x": 1}]}`): "unknown_field jobs[0].after[0].x",
		jobs(`{"ref": "a", "type": "t", "dedupe_key": "x"}`):               "invalid_request jobs[0].dedupe_key",
		jobs(`{"type": "t"}`): "invalid_request jobs[0].ref",
		jobs(`{"ref": "a", "type": "t", "after": [` + strings.Join(many, ",") + `]}`):                           "must have at most 1000 entries",
		jobs(`{"ref": "a", "type": "t"}, {"ref": "b", "type": "t", "after": ["a", "a"]}`):                       "invalid_request jobs[1].after[1]",
		jobs(`{"ref": "a", "type": "t", "nonsense": 1}`):                                                        "unknown_field jobs[0].nonsense",
		`{"name": "no spaces", "jobs": [{"ref": "a", "type": "t"}]}`:                                            "invalid_request name",
		jobs(`{"ref": "a", "type": "t"}, {"ref": "b", "type": "t", "after": [{"ref": "a", "on_failed": "z"}]}`): "invalid_request jobs[1].after[0].on_failed",
	} {
		status, _, answer := ask(t, s, "POST", "/v1/workflows", body)
		if status != 400 || refusal(t, answer) != want && !strings.Contains(string(answer), want) {
			t.Errorf("%s\n%d %s\nwant %s", body, status, answer, want)
		}
	}
	if _, _, body := ask(t, s, "GET", "/v1/jobs", ""); len(field[[]api.JobSummary](t, body, "items")) != 0 {
		t.Errorf("refused jobs are stored: %s", body)
	}
}
