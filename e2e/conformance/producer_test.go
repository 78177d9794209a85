package conformance_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const keyHeader = "Idempotency-Key"

func loses(x *trial) {
	x.front.add(&rule{method: http.MethodPost, suffix: "/v1/jobs", times: 1, lose: true})
	job := must[submitted](x, command{Do: "submit", Request: raw(x, x.simple())})
	sent := x.front.requests(http.MethodPost, "/v1/jobs")
	if len(sent) != 2 || sent[0].header.Get(keyHeader) == "" || sent[0].header.Get(keyHeader) != sent[1].header.Get(keyHeader) {
		x.Errorf("%d requests, of the keys %q and %q", len(sent), sent[0].header.Get(keyHeader), sent[len(sent)-1].header.Get(keyHeader))
	}
	if jobs := must[listed](x, command{Do: "all", Queue: x.queue}); !slices.Equal(jobs.IDs, []string{job.ID}) || !job.Replayed {
		x.Errorf("the jobs are %v, the answer is %+v", jobs.IDs, job)
	}
}

func choosesKeys(x *trial) {
	first := must[submitted](x, command{Do: "submit", Request: raw(x, x.simple()), IdempotencyKey: "k"})
	again := must[submitted](x, command{Do: "submit", Request: raw(x, x.simple()), IdempotencyKey: "k"})
	if again.ID != first.ID || first.Replayed || !again.Replayed {
		x.Errorf("%+v, then %+v", first, again)
	}
	other := x.simple()
	other.Payload = json.RawMessage(`1`)
	if f := fails(x, command{Do: "submit", Request: raw(x, other), IdempotencyKey: "k"}); f.Code != string(problem.IdempotencyMismatch) || f.Status != 422 {
		x.Errorf("another request of the same key: %+v", f)
	}
	before := len(x.front.requests(http.MethodPost, "/v1/jobs"))
	for _, bad := range []string{"two\nlines", strings.Repeat("k", 256)} {
		fails(x, command{Do: "submit", Request: raw(x, x.simple()), IdempotencyKey: bad})
	}
	if now := len(x.front.requests(http.MethodPost, "/v1/jobs")); now > before+1 { // the Go client leaves the length to the server
		x.Errorf("malformed keys made %d requests", now-before)
	}
	deduped := x.simple()
	deduped.DedupeKey = new("once")
	one := must[submitted](x, command{Do: "submit", Request: raw(x, deduped)})
	if two := must[submitted](x, command{Do: "submit", Request: raw(x, deduped)}); two.ID != one.ID || one.Deduplicated || !two.Deduplicated || two.Replayed {
		x.Errorf("of a dedupe key: %+v, then %+v", one, two)
	}
}

func refusesOne(x *trial) {
	bad := x.simple()
	bad.MaxAttempts = new(api.MaxAttempts + 1)
	large := x.simple()
	large.Payload = raw(x, strings.Repeat("x", api.MaxPayload))
	answer := must[manyAnswer](x, command{Do: "submit_many", Requests: []api.SubmitRequest{x.simple(), bad, large, x.simple()}})
	if answer.Accepted != 2 || answer.Rejected != 2 || len(answer.Results) != 4 {
		x.Fatalf("%+v", answer)
	}
	for i, want := range []manyResult{{Status: 201}, {Status: 400, Code: "invalid_request"}, {Status: 413, Code: "payload_too_large"}, {Status: 201}} {
		if got := answer.Results[i]; got.Index != i || got.Code != want.Code || (got.ID == "") != (want.Code != "") {
			x.Errorf("no. %d: %+v, want %+v", i, got, want)
		}
	}
}

func batches(x *trial) {
	requests := make([]api.SubmitRequest, api.MaxBatchJobs+2)
	for i := range requests {
		requests[i] = x.simple()
	}
	x.front.add(&rule{method: http.MethodPost, suffix: "/batch", times: 1, lose: true})
	answer := must[manyAnswer](x, command{Do: "submit_many", Requests: requests, IdempotencyKey: "m"})
	again := must[manyAnswer](x, command{Do: "submit_many", Requests: requests, IdempotencyKey: "m"})
	if answer.Accepted != len(requests) || answer.Replayed || !again.Replayed || !slices.Equal(answer.Results, again.Results) {
		x.Errorf("%d accepted, replayed: %v, then %v", answer.Accepted, answer.Replayed, again.Replayed)
	}
	var keys []string
	for _, one := range x.front.requests(http.MethodPost, "/batch") {
		keys = append(keys, one.header.Get(keyHeader))
	}
	if want := []string{"m", "m", "m/2", "m", "m/2"}; !slices.Equal(keys, want) {
		x.Errorf("the keys are %q, want %q", keys, want)
	}
}

// waited is how long the second request came after the first was answered.
func (x *trial) waited(method, suffix string) time.Duration {
	x.Helper()
	sent := x.front.requests(method, suffix)
	if len(sent) != 2 {
		x.Fatalf("%d requests, want 2", len(sent))
	}
	return sent[1].came.Sub(sent[0].answered)
}

func obeysRetryAfter(x *trial) {
	const after = 1200 * time.Millisecond
	x.front.add(refuse(http.MethodPost, "/v1/jobs", 1, http.StatusTooManyRequests, problem.RateLimited, after.Milliseconds()))
	must[submitted](x, command{Do: "submit", Request: raw(x, x.simple())})
	if waited := x.waited(http.MethodPost, "/v1/jobs"); waited < after {
		x.Errorf("the repeat came after %v, asked were %v", waited, after)
	}
	x.front.add(&rule{method: http.MethodGet, suffix: "/v1/jobs", times: 1, status: http.StatusServiceUnavailable, header: map[string]string{"Retry-After": "1"}, body: "away"})
	must[listed](x, command{Do: "list", Queue: x.queue, Size: 1})
	if waited := x.waited(http.MethodGet, "/v1/jobs"); waited < time.Second {
		x.Errorf("after a header the repeat came after %v, asked was 1 s", waited)
	}
}

func keepsTheDeadline(x *trial) {
	x.front.add(refuse(http.MethodPost, "/v1/jobs", 1, http.StatusTooManyRequests, problem.RateLimited, 50_000))
	f := fails(x, command{Do: "submit", Request: raw(x, x.simple()), TimeoutMS: 40_000})
	if f.Kind != "problem" || f.Code != "rate_limited" || f.RetryAfterMS == nil || *f.RetryAfterMS != 50_000 {
		x.Errorf("a wait beyond the deadline: %+v", f)
	}
	if sent := len(x.front.requests(http.MethodPost, "/v1/jobs")); sent != 1 {
		x.Errorf("%d requests, want 1", sent)
	}
	x.front.add(&rule{method: http.MethodGet, suffix: "/v1/jobs", times: -1, hang: true})
	if f := fails(x, command{Do: "list", Queue: x.queue, Size: 1, TimeoutMS: 300}); f.Kind != "deadline" {
		x.Errorf("no answer within the deadline: %+v", f)
	}
	waits := stack.Submit(x.T, x.c, x.simple())
	if f := fails(x, command{Do: "wait", Job: waits, TimeoutMS: 1500}); f.Kind != "deadline" {
		x.Errorf("a wait that is over: %+v", f)
	}
}

func givesUp(x *trial) {
	x.front.add(&rule{method: http.MethodGet, suffix: "/v1/jobs", times: -1, status: http.StatusBadGateway, header: map[string]string{"Content-Type": "text/html"}, body: "<h1>away</h1>"})
	f := fails(x, command{Do: "list", Queue: x.queue, Size: 1})
	if f.Kind != "status" || f.Status != http.StatusBadGateway || !strings.Contains(f.Message, "away") {
		x.Errorf("an answer that is not of the API: %+v", f)
	}
	if sent := len(x.front.requests(http.MethodGet, "/v1/jobs")); sent != 4 {
		x.Errorf("%d tries, want 4", sent)
	}
	for i, code := range []problem.Code{problem.WouldWait, problem.TooManyLanes} {
		x.front.add(refuse(http.MethodPost, "/v1/jobs", 1, []int{429, 422}[i], code, int64(i)))
		if f := fails(x, command{Do: "submit", Request: raw(x, x.simple())}); f.Code != string(code) || f.Detail != "said by the front" {
			x.Errorf("%s: %+v", code, f)
		}
		if sent := len(x.front.requests(http.MethodPost, "/v1/jobs")); sent != i+1 {
			x.Errorf("%s: %d tries in total, want %d", code, sent, i+1)
		}
	}
	// A redrive whose answer is lost may have happened: a repeat would be refused.
	dead := x.dead()
	x.front.add(&rule{method: http.MethodPost, suffix: "/redrive", times: 1, lose: true})
	if f := fails(x, command{Do: "redrive", Job: dead}); f.Kind != "no_answer" {
		x.Errorf("a redrive without an answer: %+v", f)
	}
	if sent := len(x.front.requests(http.MethodPost, "/redrive")); sent != 1 || stack.Get(x.T, x.c, dead).State != api.StateQueued {
		x.Errorf("%d tries, the job is %s", sent, stack.Get(x.T, x.c, dead).State)
	}
}

// dead makes a dead letter.
func (x *trial) dead() string {
	x.Helper()
	stack.Submit(x.T, x.c, x.simple())
	job := stack.ClaimOne(x.T, x.c, x.queue+"-test", x.queue)
	if _, err := x.c.Fail(x.Context(), job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Error: &api.JobError{Type: "Bad", Message: "no good"}, Permanent: true}); err != nil {
		x.Fatal(err)
	}
	return job.ID
}

func errorCodes(x *trial) {
	const unknown = "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"
	dead, queued := x.dead(), stack.Submit(x.T, x.c, x.simple())
	bad := x.simple()
	bad.Type = "not a type"
	for what, one := range map[string]struct {
		command command
		code    problem.Code
		status  int
	}{
		"another's job":           {command{Do: "get", Job: unknown}, problem.NotFound, 404},
		"an id with a slash":      {command{Do: "get", Job: "a/../b"}, problem.NotFound, 404},
		"a key that is not known": {command{Do: "get", Job: queued, Key: "fq_live_nobody"}, problem.Unauthenticated, 401},
		"a type that is none":     {command{Do: "submit", Request: raw(x, bad)}, problem.InvalidRequest, 400},
		"a cancel that is late":   {command{Do: "cancel", Job: dead}, problem.JobTerminal, 409},
		"a redrive of a live job": {command{Do: "redrive", Job: queued}, problem.NotDead, 409},
		"a rerun of a live job":   {command{Do: "rerun", Job: queued, Request: raw(x, struct{}{})}, problem.JobLive, 409},
	} {
		f := fails(x, one.command)
		if f.Kind != "problem" || f.Code != string(one.code) || f.Status != one.status || f.Detail == "" || f.RetryAfterMS != nil {
			x.Errorf("%s: %+v, want %d %s", what, f, one.status, one.code)
		}
	}
	if f := fails(x, command{Do: "get", Job: ".."}); f.Kind == "problem" || len(x.front.requests(http.MethodGet, "/..")) > 0 {
		x.Errorf("an id that would change the route: %+v", f)
	}
	if f := fails(x, command{Do: "result", Job: dead}); f.Kind != "ended" || f.State != api.StateDeadLetter || f.Reason != api.ReasonPermanent || !strings.Contains(f.Message, "no good") {
		x.Errorf("the result of a dead letter: %+v", f)
	}
}

func listsPages(x *trial) {
	var want []string
	for range 5 {
		want = append(want, stack.Submit(x.T, x.c, x.simple()))
	}
	slices.Reverse(want)
	var got []string
	for token := ""; ; {
		page := must[listed](x, command{Do: "list", Queue: x.queue, Size: 2, Token: token})
		if len(page.IDs) > 2 {
			x.Errorf("a page of %d", len(page.IDs))
		}
		got = append(got, page.IDs...)
		if token = page.Next; token == "" {
			break
		}
	}
	if whole := must[listed](x, command{Do: "all", Queue: x.queue}); !slices.Equal(got, want) || !slices.Equal(whole.IDs, want) {
		x.Errorf("by pages %v, as a whole %v, want %v", got, whole.IDs, want)
	}
}

func changes(x *trial) {
	job := must[submitted](x, command{Do: "submit", Request: raw(x, x.simple())})
	x.front.add(&rule{method: http.MethodPost, suffix: "/cancel", times: 1, lose: true})
	if cancelled := must[api.JobSummary](x, command{Do: "cancel", Job: job.ID}); cancelled.State != api.StateCancelled {
		x.Errorf("cancelled: %+v", cancelled)
	}
	x.front.add(&rule{method: http.MethodPost, suffix: "/rerun", times: 1, lose: true})
	again := must[submitted](x, command{Do: "rerun", Job: job.ID, Request: json.RawMessage(`{"payload":{"n":2}}`)})
	if rerun := must[api.Job](x, command{Do: "get", Job: again.ID}); again.ID == job.ID || string(rerun.Payload) != `{"n":2}` || rerun.State != api.StateQueued {
		x.Errorf("rerun: %+v", rerun)
	}
	if all := must[listed](x, command{Do: "all", Queue: x.queue}); len(all.IDs) != 2 {
		x.Errorf("a rerun whose answer was lost made the jobs %v", all.IDs)
	}
	if _, err := x.c.Cancel(x.Context(), again.ID); err != nil {
		x.Fatal(err)
	}
	dead := x.dead()
	if redriven := must[api.JobSummary](x, command{Do: "redrive", Job: dead}); redriven.State != api.StateQueued || redriven.Redrives != 1 {
		x.Errorf("redriven: %+v", redriven)
	}
}

func waits(x *trial) {
	x.work(2)
	job := x.scripted([]step{{Do: "go"}, {Do: "return", Value: map[string]any{"text": "Grüße, 世界 🌍 </script>"}}})
	_, waiting := x.driver.begin(x.T, x.about(command{Do: "result", Job: job}))
	held := func(one exchange) bool {
		return strings.HasPrefix(one.header.Get("Prefer"), "wait=") && one.header.Get("Prefer") != "wait=0"
	}
	x.front.await(x.T, "the server is asked to answer late", http.MethodGet, "/"+job, held)
	x.driver.begin(x.T, command{Do: "go", Job: job})
	result, failed := decoded[map[string]string](x, x.driver.answered(x.T, "result", waiting))
	if failed != nil || result["text"] != "Grüße, 世界 🌍 </script>" {
		x.Errorf("%v, %+v", result, failed)
	}
	request := api.SubmitRequest{Type: "script", Queue: x.queue, Payload: raw(x, script{Deliveries: [][]step{{{Do: "return", Value: 7}}}})}
	if n := must[int](x, command{Do: "submit_and_wait", Request: raw(x, request)}); n != 7 {
		x.Errorf("submitted and waited for: %d", n)
	}
}
