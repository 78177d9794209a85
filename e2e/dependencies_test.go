package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A diamond of jobs, over HTTP: the last one runs after both of the middle ones, of which one fails.
func TestJobsAfterOtherJobs(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	c := s.Client(t)
	submit := func(body string) string {
		t.Helper()
		status, _, answer := ask(t, s, "POST", "/v1/jobs", body)
		if status != 202 {
			t.Fatalf("%d %s", status, answer)
		}
		return field[string](t, answer, "id")
	}
	next := func(want, jobType string) api.ClaimedJob {
		t.Helper()
		claimed, err := c.Claim(t.Context(), api.ClaimRequest{WorkerID: "w1", Queues: []string{"default"}, Types: []string{jobType}, WaitMS: new(int64(10_000))})
		if err != nil || len(claimed.Jobs) != 1 || claimed.Jobs[0].ID != want {
			t.Fatalf("want %s: %+v %v", want, claimed, err)
		}
		return claimed.Jobs[0]
	}
	top := submit(`{"type": "top"}`)
	left := submit(fmt.Sprintf(`{"type": "left", "after": [%q]}`, top))
	right := submit(fmt.Sprintf(`{"type": "right", "after": [{"job_id": %q, "on_failed": null}]}`, top))
	last := submit(fmt.Sprintf(`{"type": "last", "after": [%q, {"job_id": %q, "on_failed": "run"}]}`, left, right))
	never := submit(fmt.Sprintf(`{"type": "never", "after": [%q]}`, right))
	_, _, body := ask(t, s, "GET", "/v1/jobs/"+last, "")
	if field[string](t, body, "state") != api.StateBlocked || field[int](t, body, "blocked_by") != 2 || len(field[[]api.JobDependency](t, body, "after")) != 2 {
		t.Fatalf("%s", body)
	}
	for _, one := range [][2]string{{top, "top"}, {left, "left"}} {
		if _, err := c.Complete(t.Context(), one[0], api.CompleteRequest{LeaseToken: next(one[0], one[1]).LeaseToken}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Fail(t.Context(), right, api.FailRequest{LeaseToken: next(right, "right").LeaseToken, Permanent: true, Error: &api.JobError{Type: "e", Message: "broken"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Complete(t.Context(), last, api.CompleteRequest{LeaseToken: next(last, "last").LeaseToken}); err != nil {
		t.Fatal(err)
	}
	status, _, body := ask(t, s, "GET", "/v1/jobs/"+never, "", "Prefer", "wait=20")
	for field[string](t, body, "state") == api.StateBlocked {
		status, _, body = ask(t, s, "GET", "/v1/jobs/"+never, "", "Prefer", "wait=20")
	}
	if failure := field[*api.JobError](t, body, "last_error"); status != 200 || field[string](t, body, "state") != api.StateCancelled || failure == nil || failure.Type != api.ErrorParentFailed {
		t.Fatalf("%d %s", status, body)
	}
}

func TestRefusedParents(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	const unknown = "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"
	for after, want := range map[string]string{
		`["` + unknown + `"]`: "invalid_request after[0]",
		`["nonsense"]`:        "invalid_request after[0]",
		`[7]`:                 "invalid_request after[0]",
		`"` + unknown + `"`:   "invalid_request after",
		`[{"job_id": "` + unknown + `", "on_fail": "run"}]`:       "unknown_field after[0].on_fail",
		`[{"job_id": "` + unknown + `", "on_failed": "x"}]`:       "invalid_request after[0].on_failed",
		`[{"on_failed": "run"}]`:                                  "invalid_request after[0]",
		`["` + unknown + `", "` + unknown + `"]`:                  "invalid_request after[1]",
		`["` + strings.ToUpper(unknown) + `", "` + unknown + `"]`: "invalid_request after[1]",
	} {
		status, _, body := ask(t, s, "POST", "/v1/jobs", `{"type": "t", "after": `+after+`}`)
		if got := refusal(t, body); status != 400 || got != want {
			t.Errorf("%s: %d %s, want %s", after, status, got, want)
		}
	}
	status, _, body := ask(t, s, "POST", "/v1/jobs/batch", `{"jobs": [{"type": "t"}, {"type": "t", "after": ["`+unknown+`"]}]}`)
	results := field[[]api.BatchResult](t, body, "results")
	if status != 200 || results[0].Status != 202 || results[1].Status != 400 || results[1].Problem.Errors[0].Field != "jobs[1].after[0]" {
		t.Errorf("batch: %d %s", status, body)
	}
	if status, _, body = ask(t, s, "POST", "/v1/jobs/batch", `{"atomic": true, "jobs": [{"type": "t"}, {"type": "t", "after": ["`+unknown+`"]}]}`); status != 400 {
		t.Errorf("atomic batch: %d %s", status, body)
	}
	if _, _, body = ask(t, s, "GET", "/v1/jobs", ""); len(field[[]api.JobSummary](t, body, "items")) != 1 {
		t.Errorf("refused jobs are stored: %s", body)
	}
}

func refusal(t *testing.T, body json.RawMessage) string {
	t.Helper()
	errors := field[[]struct{ Field string }](t, body, "errors")
	if len(errors) == 0 {
		return field[string](t, body, "code")
	}
	return field[string](t, body, "code") + " " + errors[0].Field
}
