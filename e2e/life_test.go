package e2e_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// ask sends one request with a key and gives status, headers and body.
func ask(t *testing.T, s *stack.Stack, method, path, body string, headers ...string) (int, http.Header, json.RawMessage) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.Gateway+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.APIKey)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer json.RawMessage
	_ = json.NewDecoder(response.Body).Decode(&answer) // 304 has none
	return response.StatusCode, response.Header, answer
}

func field[T any](t *testing.T, body json.RawMessage, name string) T {
	t.Helper()
	var members map[string]json.RawMessage
	var value T
	if err := json.Unmarshal(body, &members); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if err := json.Unmarshal(members[name], &value); err != nil {
		t.Fatalf("%s of %s: %v", name, body, err)
	}
	return value
}

// One job through everything that can happen to it, over HTTP.
func TestTheWholeLifeOfAJob(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	c := s.Client(t)

	// it fails for good, and is a dead letter with its story
	id := stack.Submit(t, c, api.SubmitRequest{Type: "mail", Queue: "q", Tags: []string{"smtp"}, Metadata: map[string]string{"order": "7"}})
	claim := func() api.ClaimedJob {
		t.Helper()
		tags, wait := []string{"smtp", "other"}, int64(5000)
		claimed, err := c.Claim(t.Context(), api.ClaimRequest{WorkerID: "w1", Queues: []string{"q"}, Tags: &tags, WaitMS: &wait})
		if err != nil || len(claimed.Jobs) != 1 || claimed.Jobs[0].ID != id {
			t.Fatalf("%+v %v", claimed, err)
		}
		return claimed.Jobs[0]
	}
	first := claim()
	if _, err := c.Snooze(t.Context(), id, api.SnoozeRequest{LeaseToken: first.LeaseToken, DelayMS: new(int64(50))}); err != nil {
		t.Fatal(err)
	}
	second := claim()
	if second.Attempt != 1 || second.Epoch != 2 {
		t.Fatalf("a snooze spent an attempt: %+v", second)
	}
	if _, err := c.Fail(t.Context(), id, api.FailRequest{LeaseToken: second.LeaseToken, Permanent: true, Error: &api.JobError{Type: "smtp", Message: "no such user"}}); err != nil {
		t.Fatal(err)
	}
	status, _, dead := ask(t, s, "GET", "/v1/dead-letters?queue=q&reason=permanent&type=mail", "")
	if status != 200 || len(field[[]api.DeadLetter](t, dead, "items")) != 1 {
		t.Fatalf("%d %s", status, dead)
	}
	if status, _, body := ask(t, s, "POST", "/v1/jobs/"+id+"/cancel", ""); status != 409 || field[string](t, body, "code") != "job_terminal" {
		t.Fatalf("%d %s", status, body)
	}

	// redriven, it runs again, and its owner wants it to stop
	if status, _, body := ask(t, s, "POST", "/v1/jobs/"+id+"/redrive", ""); status != 202 || field[int](t, body, "redrives") != 1 {
		t.Fatalf("%d %s", status, body)
	}
	if status, _, body := ask(t, s, "POST", "/v1/jobs/"+id+"/redrive", ""); status != 409 || field[string](t, body, "code") != "not_dead" {
		t.Fatalf("%d %s", status, body)
	}
	third := claim()
	if status, _, body := ask(t, s, "POST", "/v1/jobs/"+id+"/cancel", ""); status != 202 || !field[bool](t, body, "cancel_requested") {
		t.Fatalf("%d %s", status, body)
	}
	beat, err := c.Heartbeat(t.Context(), "w1", []api.Lease{{JobID: id, LeaseToken: third.LeaseToken}})
	if err != nil || beat.Leases[0].Status != api.LeaseCancel || beat.Leases[0].LeaseExpiresAt == nil {
		t.Fatalf("%+v %v", beat, err)
	}
	if outcome, err := c.Release(t.Context(), id, api.ReleaseRequest{LeaseToken: third.LeaseToken}); err != nil || outcome.State != api.StateCancelled {
		t.Fatalf("%+v %v", outcome, err)
	}
	status, _, attempts := ask(t, s, "GET", "/v1/jobs/"+id+"/attempts", "")
	var kinds []string
	for _, attempt := range field[[]api.Attempt](t, attempts, "items") {
		kinds = append(kinds, attempt.Kind)
	}
	if status != 200 || !slices.Equal(kinds, []string{"failed", "cancelled"}) {
		t.Fatalf("%d %v", status, kinds)
	}
	status, _, list := ask(t, s, "GET", "/v1/jobs?state=cancelled,completed&tag=smtp&metadata.order=7", "")
	if status != 200 || len(field[[]api.JobSummary](t, list, "items")) != 1 {
		t.Fatalf("%d %s", status, list)
	}
}

func TestWaitingForAJobIsWoken(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	c := s.Client(t)
	id := stack.Submit(t, c, api.SubmitRequest{Type: "x"})
	_, headers, _ := ask(t, s, "GET", "/v1/jobs/"+id, "")
	etag := headers.Get("ETag")
	if status, _, _ := ask(t, s, "GET", "/v1/jobs/"+id, "", "If-None-Match", etag); etag == "" || status != http.StatusNotModified {
		t.Fatalf("status %d for the ETag %q", status, etag)
	}
	type answer struct {
		status int
		state  string
		after  time.Duration
	}
	waiting := func(headers ...string) <-chan answer {
		answers := make(chan answer, 1)
		begun := time.Now()
		go func() {
			status, _, body := ask(t, s, "GET", "/v1/jobs/"+id, "", append(headers, "Prefer", "wait=20")...)
			answers <- answer{status, field[string](t, body, "state"), time.Since(begun)}
		}()
		return answers
	}
	next, other := waiting(), waiting("If-None-Match", etag)
	claimed := stack.ClaimOne(t, c, "w", "default")
	if got := <-other; got.status != 200 || got.state != api.StateRunning || got.after > 15*time.Second {
		t.Errorf("who has seen it queued: %+v", got)
	}
	// nothing happens: the job as it is, when the wait is over
	status, headers, body := ask(t, s, "GET", "/v1/jobs/"+id, "", "Prefer", "wait=1")
	if status != 200 || field[string](t, body, "state") != api.StateRunning || headers.Get("Preference-Applied") != "wait=1" {
		t.Errorf("%d %s", status, body)
	}
	// Its request may have come after the claim: then the end is its next change.
	complete(t, c, claimed)
	if got := <-next; got.status != 200 || got.state == api.StateQueued || got.after > 15*time.Second {
		t.Errorf("who waits for the next change: %+v", got)
	}
}

func TestPauseOutlivesARestart(t *testing.T) {
	t.Parallel()
	data := stack.Folder(t)
	s := stack.Up(t, data, "--demo=false")
	id := stack.Submit(t, s.Client(t), api.SubmitRequest{Type: "x", Queue: "q", Tags: []string{"gpu"}})
	if status, _, body := ask(t, s, "POST", "/v1/queues/q/pause", ""); status != 200 || !field[bool](t, body, "paused") {
		t.Fatalf("%d %s", status, body)
	}
	if code := s.Stop(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	s = stack.Up(t, data, "--demo=false")
	c := s.Client(t)
	tags, wait := []string{"gpu"}, int64(300)
	claim := api.ClaimRequest{WorkerID: "w", Queues: []string{"q"}, Tags: &tags, WaitMS: &wait}
	if claimed, err := c.Claim(t.Context(), claim); err != nil || len(claimed.Jobs) != 0 {
		t.Fatalf("a paused queue gave %+v, %v", claimed, err)
	}
	status, _, shown := ask(t, s, "GET", "/v1/queues/q", "")
	if depth := field[api.Depth](t, shown, "depth"); status != 200 || depth.Queued != 1 || !field[bool](t, shown, "paused") {
		t.Fatalf("%d %s", status, shown)
	}
	if status, _, body := ask(t, s, "PUT", "/v1/queues/q", `{"visibility_timeout_ms":5000}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if status, _, body := ask(t, s, "POST", "/v1/queues/q/resume", ""); status != 200 || field[bool](t, body, "paused") {
		t.Fatalf("%d %s", status, body)
	}
	*claim.WaitMS = 5000
	claimed, err := c.Claim(t.Context(), claim)
	if err != nil || len(claimed.Jobs) != 1 || claimed.Jobs[0].ID != id {
		t.Fatalf("%+v %v", claimed, err)
	}
	if got := stack.Get(t, c, id); got.LeaseExpiresAt.Sub(got.StartedAt.Time) != 5*time.Second {
		t.Errorf("the lease is %v long, want the queue's 5 s", got.LeaseExpiresAt.Sub(got.StartedAt.Time))
	}
}

// What is another tenant's looks like what is not there, on every route.
func TestForeignLooksLikeUnknown(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	c := s.Client(t)
	id := stack.Submit(t, c, api.SubmitRequest{Type: "x"})
	held := stack.ClaimOne(t, c, "w", "default")
	stranger := *s
	stranger.APIKey = tenantKey(t, s.Gateway, s.OperatorKey)
	token := `{"lease_token":"` + held.LeaseToken + `"}`
	redrive, err := c.RedriveMatching(t.Context(), api.DeadLetterFilter{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	yearly := "@yearly"
	if _, err := c.PutSchedule(t.Context(), id, api.ScheduleRequest{Cron: &yearly, Job: api.ScheduleJob{Type: "x"}}); err != nil {
		t.Fatal(err)
	}
	for _, route := range [][3]string{
		{"GET", "/v1/schedules/ID", ""},
		{"DELETE", "/v1/schedules/ID", ""},
		{"POST", "/v1/schedules/ID/pause", ""},
		{"POST", "/v1/schedules/ID/resume", ""},
		{"POST", "/v1/schedules/ID/trigger", ""},
		{"GET", "/v1/schedules/ID/runs", ""},
		{"GET", "/v1/redrives/ID", ""},
		{"POST", "/v1/redrives/ID/cancel", ""},
		{"GET", "", ""},
		{"GET", "/attempts", ""},
		{"POST", "/cancel", ""},
		{"POST", "/redrive", ""},
		{"POST", "/rerun", ""},
		{"DELETE", "", ""},
		{"POST", "/complete", token},
		{"POST", "/fail", token},
		{"POST", "/release", token},
		{"POST", "/snooze", `{"delay_ms":1,` + token[1:]},
	} {
		var shapes []string
		for _, name := range []string{id, "01a1fa7a-0000-7000-8000-000000000000", "not-an-id"} {
			path := "/v1/jobs/" + name + route[1]
			if strings.HasPrefix(route[1], "/v1/schedules") { // of the job's id as a name
				path = strings.Replace(route[1], "ID", name, 1)
			}
			if strings.HasPrefix(route[1], "/v1/redrives") {
				path = strings.Replace(route[1], "ID", strings.Replace(name, id, redrive.ID, 1), 1)
			}
			status, _, body := ask(t, &stranger, route[0], path, route[2])
			if status != 404 || field[problem.Code](t, body, "code") != problem.NotFound {
				t.Errorf("%s %s of %s: %d %s", route[0], route[1], name, status, body)
			}
			shapes = append(shapes, field[string](t, body, "detail"))
		}
		if shapes[0] != shapes[1] || shapes[1] != shapes[2] {
			t.Errorf("%s %s: the answers differ: %q", route[0], route[1], shapes)
		}
	}
	if _, _, list := ask(t, &stranger, "GET", "/v1/jobs", ""); len(field[[]api.JobSummary](t, list, "items")) != 0 {
		t.Errorf("a stranger's list: %s", list)
	}
	if job := stack.Get(t, c, id); job.State != api.StateRunning {
		t.Errorf("the job is %s", job.State)
	}
}
