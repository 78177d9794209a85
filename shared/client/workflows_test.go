package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func diamond() *client.WorkflowBuilder {
	return client.Workflow().Named("report").Metadata(map[string]string{"shop": "berlin"}).
		Add("a", aJob).
		Add("b", aJob).After("a").
		Add("c", aJob).After("a").
		Add("d", aJob).After("b").AfterOnFailed(api.OnFailedRun, "c")
}

func TestWorkflowCallsGoToTheirRoutes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			answer(w, http.StatusAccepted, map[string]any{"state": api.WorkflowFailed})
		})
		c, ctx := s.client, t.Context()
		for _, test := range []struct {
			want string
			call func() error
		}{
			{`GET /v1/workflows/w  `, func() error { _, err := c.GetWorkflow(ctx, "w"); return err }},
			{`GET /v1/workflows/w  `, func() error { _, err := c.WaitForWorkflow(ctx, "w"); return err }},
			{`GET /v1/workflows  `, func() error { _, err := c.Workflows(ctx, api.WorkflowFilter{}, client.PageRequest{}); return err }},
			{`GET /v1/workflows name=report&page_size=2&page_token=t&state=failed `, func() error {
				_, err := c.Workflows(ctx, api.WorkflowFilter{State: api.WorkflowFailed, Name: "report"}, client.PageRequest{Size: 2, Token: "t"})
				return err
			}},
			{`POST /v1/workflows/w/cancel  `, func() error { _, err := c.CancelWorkflow(ctx, "w"); return err }},
			{`POST /v1/workflows/w/redrive  `, func() error { _, err := c.RedriveWorkflow(ctx, "w"); return err }},
			{`POST /v1/workflows/w/jobs  {"jobs":[{"ref":"e","type":"x","after":[{"ref":"d"}]}]}`, func() error {
				_, err := c.AddToWorkflow(ctx, "w", client.Workflow().Add("e", api.SubmitRequest{Type: "x"}).After("d"))
				return err
			}},
			{`GET /v1/jobs/j/parents  `, func() error { _, err := c.Parents(ctx, "j", client.PageRequest{}); return err }},
			{`GET /v1/jobs/j/parents page_size=2&page_token=t `, func() error {
				_, err := c.Parents(ctx, "j", client.PageRequest{Size: 2, Token: "t"})
				return err
			}},
		} {
			before := len(s.all())
			if err := test.call(); err != nil {
				t.Errorf("%s: %v", test.want, err)
				continue
			}
			got := s.all()[before]
			if line := got.Method + " " + got.Path + " " + got.Query + " " + got.Body; line != test.want {
				t.Errorf("sent %s\nwant %s", line, test.want)
			}
		}
	})
}

func TestSubmitWorkflowSendsTheGraph(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Idempotent-Replayed", "true")
			answer(w, http.StatusAccepted, api.Workflow{ID: "w1", State: api.WorkflowRunning, Counts: api.WorkflowCounts{Queued: 1, Blocked: 3}})
		})
		replayed := false
		made, err := s.client.SubmitWorkflow(t.Context(), diamond(), client.WithIdempotencyKey("k"), client.WithReplayed(&replayed))
		if err != nil || made.ID != "w1" || made.Counts.Live() != 4 || !replayed {
			t.Fatalf("%+v, %v, %v", made, err, replayed)
		}
		sent := s.all()[0]
		var request api.WorkflowRequest
		if err := json.Unmarshal([]byte(sent.Body), &request); err != nil {
			t.Fatal(err)
		}
		if sent.Method+sent.Path != "POST/v1/workflows" || sent.Header.Get("Idempotency-Key") != "k" {
			t.Errorf("sent %+v", sent)
		}
		if request.Name != "report" || request.Metadata["shop"] != "berlin" || len(request.Jobs) != 4 || request.Jobs[0].After != nil ||
			request.Jobs[1].After[0].Ref != "a" || request.Jobs[3].After[0].Policy() != api.OnFailedCancel ||
			request.Jobs[3].After[1] != (api.WorkflowDependency{Ref: "c", OnFailed: api.OnFailedRun}) {
			t.Errorf("sent %s", sent.Body)
		}
		if refused := request.Validate(time.Now()); len(refused) > 0 {
			t.Errorf("the server would refuse %v", refused)
		}
	})
}

// A lost answer is asked for again with the same key, so that there is one workflow;
// the next call has another.
func TestSubmitWorkflowIsRepeatedSafely(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(n int, w http.ResponseWriter, _ *http.Request) {
			if n%2 == 0 {
				breakOff(w)
				return
			}
			answer(w, http.StatusAccepted, api.Workflow{ID: "w1"})
		})
		w := diamond()
		if _, err := s.client.SubmitWorkflow(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.AddToWorkflow(t.Context(), "w1", client.Workflow().Add("e", aJob)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.SubmitWorkflow(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		all := s.all()
		if len(all) != 6 {
			t.Fatalf("%d requests", len(all))
		}
		keys := map[string]bool{}
		for i := 0; i < len(all); i += 2 {
			first, second := all[i], all[i+1]
			key := first.Header.Get("Idempotency-Key")
			if len(key) < 20 || key != second.Header.Get("Idempotency-Key") || first.Body != second.Body {
				t.Errorf("%+v\n%+v", first, second)
			}
			keys[key] = true
		}
		if len(keys) != 3 {
			t.Errorf("the keys are %v", keys)
		}
	})
}

// A redrive may have been written: its repeat would tell of nothing.
func TestRedriveWorkflowIsNotRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) { breakOff(w) })
		if _, err := s.client.RedriveWorkflow(t.Context(), "w"); err == nil || len(s.all()) != 1 {
			t.Errorf("%d tries, %v", len(s.all()), err)
		}
	})
}

func TestTheBuilderTellsItsMistakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			problem.Invalid(problem.FieldError{Field: "jobs", Message: "must have 1 to 1000 entries"}).Write(w)
		})
		after := aJob
		after.After = []api.Dependency{{JobID: "j1"}}
		for want, w := range map[string]*client.WorkflowBuilder{
			"before the first Add": client.Workflow().After("a").Add("a", aJob),
			"ids of other jobs":    client.Workflow().Add("a", after),
		} {
			if _, err := s.client.SubmitWorkflow(t.Context(), w); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want %q", err, want)
			}
			if _, err := s.client.AddToWorkflow(t.Context(), "w", w); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, want %q", err, want)
			}
		}
		if _, err := s.client.AddToWorkflow(t.Context(), "w", diamond()); err == nil || !strings.Contains(err.Error(), "new workflow") {
			t.Errorf("the error is %v", err)
		}
		if len(s.all()) != 0 {
			t.Errorf("sent %+v", s.all())
		}
		// What the server can say, it says.
		if _, err := s.client.SubmitWorkflow(t.Context(), client.Workflow()); client.Status(err) != http.StatusBadRequest || s.all()[0].Body != `{"jobs":[]}` {
			t.Errorf("%v, sent %+v", err, s.all())
		}
	})
}

func TestWorkflowOfHasAllOfARequest(t *testing.T) {
	t.Parallel()
	request, err := diamond().Request()
	if err != nil {
		t.Fatal(err)
	}
	again, err := client.WorkflowOf(request).Add("e", aJob).After("d").Request()
	if err != nil || len(again.Jobs) != 5 || again.Name != "report" || len(request.Jobs) != 4 {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestWaitForWorkflow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			now := api.WorkflowDetail{Workflow: api.Workflow{ID: "w1", State: api.WorkflowRunning, Counts: api.WorkflowCounts{Completed: 1, Running: 1}}, Jobs: make([]api.WorkflowJob, 2)}
			if time.Since(start) > 30*time.Second {
				now.State = api.WorkflowCompleted
			}
			answer(w, http.StatusOK, now)
		})
		done, err := s.client.WaitForWorkflow(t.Context(), "w1")
		if err != nil || done.State != api.WorkflowCompleted || len(done.Jobs) != 2 {
			t.Fatalf("%+v, %v", done, err)
		}
		if count := len(s.all()); count < 25 || count > 80 {
			t.Errorf("polled %d times in 30 s", count)
		}
		start = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		last, err := s.client.WaitForWorkflow(ctx, "w1")
		if !errors.Is(err, context.DeadlineExceeded) || last.State != api.WorkflowRunning || !strings.Contains(err.Error(), "1 of 2 jobs have ended") {
			t.Errorf("%+v, %v", last, err)
		}
	})
}

// The larger a workflow is, the less often it is read.
func TestWaitForALargeWorkflowIsPatient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := serve(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
			now := api.WorkflowDetail{Workflow: api.Workflow{State: api.WorkflowRunning}, Jobs: make([]api.WorkflowJob, 2000)}
			if time.Since(start) > time.Minute {
				now.State = api.WorkflowFailed
			}
			answer(w, http.StatusOK, now)
		})
		done, err := s.client.WaitForWorkflow(t.Context(), "w1")
		if err != nil || done.State != api.WorkflowFailed || len(s.all()) > 75 {
			t.Errorf("%v after %d polls", err, len(s.all()))
		}
	})
}

// The largest pages there are come whole, one after the other.
func TestParentsComeWithTheirResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		large := json.RawMessage(`"` + strings.Repeat("x", api.MaxResult-2) + `"`)
		ref := "a"
		s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			page := api.Page[api.JobParent]{}
			for range api.MaxClaimBytes/api.MaxResult + 1 {
				page.Items = append(page.Items, api.JobParent{Ref: &ref, JobID: "j", State: api.StateCompleted, Result: large})
			}
			if r.URL.Query().Get("page_token") == "" {
				page.NextPageToken = new("next")
			}
			answer(w, http.StatusOK, page)
		})
		all := 0
		for parent, err := range client.All(t.Context(), func(ctx context.Context, page client.PageRequest) (api.Page[api.JobParent], error) {
			return s.client.Parents(ctx, "j1", page)
		}) {
			if err != nil || len(parent.Result) != api.MaxResult {
				t.Fatalf("%d bytes, %v", len(parent.Result), err)
			}
			all++
		}
		if all != 66 || len(s.all()) != 2 {
			t.Errorf("%d parents in %d calls", all, len(s.all()))
		}
	})
}
