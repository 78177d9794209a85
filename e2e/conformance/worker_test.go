package conformance_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// visible is how long a lease lasts where a case waits for heartbeats.
const visible = 20 * time.Second

func completes(x *trial) {
	w := x.work(2)
	x.completes(x.scripted([]step{{Do: "return", Value: map[string]any{"n": 1, "list": []string{"ä", "\"", "<"}}}}), `{"list":["ä","\"","<"],"n":1}`, 1, 1)
	x.completes(x.scripted([]step{{Do: "undefined"}}), "null", 1, 1)
	stranger := stack.Submit(x.T, x.c, x.simple())
	claim := x.front.requests(http.MethodPost, "/v1/claims")[0]
	var asked api.ClaimRequest
	if err := json.Unmarshal(claim.body, &asked); err != nil || !slices.Equal(asked.Types, []string{"script"}) || asked.WaitMS == nil || *asked.WaitMS < 1000 || *asked.Max != 2 {
		x.Errorf("the claim is %s, %v", claim.body, err)
	}
	w.stop()
	if job := stack.Get(x.T, x.c, stranger); job.State != api.StateQueued || job.Epoch != 0 {
		x.Errorf("a job of a type without a handler is %s, epoch %d", job.State, job.Epoch)
	}
}

func wholeNumbers(x *trial) {
	x.work(1)
	x.completes(stack.Submit(x.T, x.c, api.SubmitRequest{
		Type: "script", Queue: x.queue, Payload: raw(x, script{Deliveries: [][]step{{{Do: "big"}}}, N: 1<<53 + 1}),
	}), `"9007199254740993"`, 1, 1)
	// The braces, quotes and backslashes before it must not hide it.
	other := stack.Submit(x.T, x.c, api.SubmitRequest{Type: "other", Queue: x.queue, Payload: json.RawMessage(`{"result":["}\\\"{",{"a":[]}]}`)})
	claimed := stack.ClaimOne(x.T, x.c, x.queue+"-other", x.queue)
	if _, err := x.c.Complete(x.Context(), claimed.ID, api.CompleteRequest{LeaseToken: claimed.LeaseToken, Result: json.RawMessage("9007199254740993")}); err != nil {
		x.Fatal(err)
	}
	if text := must[string](x, command{Do: "result_text", Job: other}); text != "9007199254740993" {
		x.Errorf("the result is %s", text)
	}
}

func failsJobs(x *trial) {
	x.work(2)
	after := int64(0)
	retried := x.scripted([]step{{Do: "fail", Message: "not yet", RetryAfterMS: &after}}, []step{{Do: "return", Value: 2}})
	permanent := x.scripted([]step{{Do: "fail", Message: "never: Ä\x00", Permanent: true}})
	by := x.scripted([]step{{Do: "fail", Message: "backoff"}})
	x.completes(retried, "2", 2, 2)
	if e := x.dies(permanent, api.ReasonPermanent); e.Message != "never: Ä" || e.Type != "error" {
		x.Errorf("the error is %+v", e)
	}
	stack.Eventually(x.T, time.Minute, "the failed job waits", func() bool { return stack.Get(x.T, x.c, by).LastError != nil })
	if job := stack.Get(x.T, x.c, by); job.LastError.Message != "backoff" || job.LastError.Type != "error" {
		x.Errorf("the error is %+v", job.LastError)
	}
	if _, err := x.c.Cancel(x.Context(), by); err != nil {
		x.Fatal(err)
	}
}

func snoozes(x *trial) {
	x.work(1)
	x.completes(x.scripted([]step{{Do: "snooze", DelayMS: 1, Message: "busy"}}, []step{{Do: "return", Value: "later"}}), `"later"`, 1, 2)
	long := x.scripted([]step{{Do: "snooze", DelayMS: 3_600_000, Message: "closed"}})
	stack.Eventually(x.T, time.Minute, "the job is put back", func() bool { return stack.Get(x.T, x.c, long).State == api.StateScheduled })
	if job := stack.Get(x.T, x.c, long); job.Attempt != 0 || job.LastError == nil || job.LastError.Type != "snoozed" || job.LastError.Message != "closed" {
		x.Errorf("attempt %d, error %+v", job.Attempt, job.LastError)
	}
}

func limits(x *trial) {
	w := x.work(2)
	steps := []step{{Do: "go"}, {Do: "return"}}
	jobs := []string{x.scripted(steps), x.scripted(steps), x.scripted(steps)}
	w.started(jobs[0], 1)
	w.started(jobs[1], 1)
	<-time.After(2 * quick) // handlers that take as long have no jobs claimed ahead of them
	if job := stack.Get(x.T, x.c, jobs[2]); job.State != api.StateQueued || job.Epoch != 0 {
		x.Errorf("the third of two jobs at once is %s", job.State)
	}
	w.goOn(jobs[0])
	w.started(jobs[2], 1)
	w.goOn(jobs[1])
	w.goOn(jobs[2])
	for _, job := range jobs {
		x.completes(job, "null", 1, 1)
	}
	running := 0
	for _, one := range x.front.requests(http.MethodPost, "/v1/claims") {
		var asked api.ClaimRequest
		if err := json.Unmarshal(one.body, &asked); err != nil || *asked.Max > 2 || *asked.Max < 1 {
			x.Errorf("a claim of %s, %v", one.body, err)
		}
		running++
	}
	if running == 0 {
		x.Error("no claim was seen")
	}
}

func keepsLeases(x *trial) {
	x.leases(visible)
	w := x.work(1)
	percent := 40.0
	job := x.scripted([]step{{Do: "progress", Percent: &percent, Message: "half"}, {Do: "go"}, {Do: "return", Value: "done"}})
	w.started(job, 1)
	stack.Eventually(x.T, time.Minute, "the progress is shown", func() bool {
		p := stack.Get(x.T, x.c, job).Progress
		return p != nil && *p.Percent == 40 && *p.Message == "half"
	})
	stack.Eventually(x.T, time.Minute, "the lease is extended", func() bool {
		now := stack.Get(x.T, x.c, job)
		return now.LeaseExpiresAt != nil && now.LeaseExpiresAt.Sub(now.StartedAt.Time) > visible+2*time.Second
	})
	w.goOn(job)
	x.completes(job, `"done"`, 1, 1)
}

// outage: heartbeats are refused for a while, one hangs, and the lease is kept all the same.
func keepsTrying(x *trial) {
	x.leases(visible)
	x.front.add(refuse(http.MethodPost, "/heartbeat", 2, http.StatusServiceUnavailable, problem.CoreUnavailable, 10))
	x.front.add(refuse(http.MethodPost, "/heartbeat", 1, http.StatusInternalServerError, problem.Internal, 0))
	w := x.work(1)
	job := x.scripted([]step{{Do: "go"}, {Do: "return", Value: "kept"}})
	w.started(job, 1)
	x.front.await(x.T, "a heartbeat after the outage", http.MethodPost, "/heartbeat", func(one exchange) bool { return one.status == http.StatusOK })
	w.goOn(job)
	x.completes(job, `"kept"`, 1, 1)
}

func restores(x *trial) {
	w := x.work(1)
	job := x.scripted(
		[]step{{Do: "checkpoint", Value: map[string]int{"page": 6}}, {Do: "checkpoint", Value: map[string]int{"page": 7}}, {Do: "ended"}, {Do: "rethrow"}},
		// The second one within a second has to be sent before the outcome.
		[]step{{Do: "checkpoint", Value: map[string]int{"page": 8}}, {Do: "go"}, {Do: "checkpoint", Value: map[string]int{"page": 9}}, {Do: "fail", Message: "again", RetryAfterMS: new(int64(0))}},
		[]step{{Do: "return", Value: "whole"}},
	)
	if first := w.started(job, 1); len(first.Checkpoint) > 0 && string(first.Checkpoint) != "null" {
		x.Errorf("the first delivery has the checkpoint %s", first.Checkpoint)
	}
	stack.Eventually(x.T, time.Minute, "the checkpoint is stored", func() bool { return string(stack.Get(x.T, x.c, job).Checkpoint) == `{"page":7}` })
	if err := x.c.RemoveWorker(x.Context(), w.id); err != nil { // all its leases are returned
		x.Fatal(err)
	}
	w.told(job, 1, "lease_lost")
	if second := w.started(job, 2); string(second.Checkpoint) != `{"page":7}` {
		x.Errorf("after the lost lease the checkpoint is %s", second.Checkpoint)
	}
	stack.Eventually(x.T, time.Minute, "the next checkpoint is stored", func() bool { return string(stack.Get(x.T, x.c, job).Checkpoint) == `{"page":8}` })
	w.goOn(job)
	if third := w.started(job, 3); string(third.Checkpoint) != `{"page":9}` {
		x.Errorf("after the failure the checkpoint is %s", third.Checkpoint)
	}
	x.completes(job, `"whole"`, 2, 3)
	if registered := x.front.requests(http.MethodPost, "/v1/workers"); len(registered) != 2 {
		x.Errorf("it has registered %d times, want 2", len(registered))
	}
}

// The heartbeat arrives after the complete, so core reports the lease as lost. The handler that has returned is not told.
func tellsNothing(x *trial) {
	x.leases(2 * time.Minute)
	late := make(chan struct{})
	x.front.add(&rule{method: http.MethodPost, suffix: "/heartbeat", times: 1, until: late})
	w := x.work(2)
	percent := 10.0
	report := step{Do: "progress", Percent: &percent, Message: "under way"}
	job := x.scripted([]step{{Do: "listen"}, report, {Do: "go"}, {Do: "return", Value: "done"}})
	x.front.await(x.T, "the heartbeat", http.MethodPost, "/heartbeat", func(one exchange) bool { return strings.Contains(string(one.body), job) })
	w.goOn(job)
	x.completes(job, `"done"`, 1, 1)
	x.front.await(x.T, "the complete is answered", http.MethodPost, job+"/complete", func(one exchange) bool { return one.status == http.StatusOK })
	close(late)
	// Heartbeats are sent one after the other: with the next one the first one's answer was processed.
	next := x.scripted([]step{report, {Do: "go"}, {Do: "return"}})
	x.front.await(x.T, "the next heartbeat", http.MethodPost, "/heartbeat", func(one exchange) bool { return strings.Contains(string(one.body), next) })
	w.goOn(next)
	x.completes(next, "null", 1, 1)
	w.stop()
	w.driver.mu.Lock()
	defer w.driver.mu.Unlock()
	for _, l := range w.driver.events {
		if l.Event == "heard" && l.Job == job && slices.Contains([]string{"lease_lost", "cancel", "timeout", "stopping"}, l.Cause) {
			x.Errorf("the handler of a completed job was told %q", l.Cause)
		}
	}
}

func cancels(x *trial) {
	x.leases(visible)
	w := x.work(2)
	job := x.scripted([]step{{Do: "ended"}, {Do: "rethrow"}})
	w.started(job, 1)
	if _, err := x.c.Cancel(x.Context(), job); err != nil {
		x.Fatal(err)
	}
	w.told(job, 1, "cancel")
	if ended := x.ends(job); ended.State != api.StateCancelled {
		x.Errorf("the job is %s", ended.State)
	}
	limit := int64(300)
	slow := stack.Submit(x.T, x.c, api.SubmitRequest{
		Type: "script", Queue: x.queue, Payload: raw(x, script{Deliveries: [][]step{{{Do: "ended"}, {Do: "rethrow"}}}}), TimeoutMS: &limit, MaxAttempts: new(1),
	})
	w.told(slow, 1, "timeout")
	if ended := x.ends(slow); ended.State != api.StateDeadLetter {
		x.Errorf("a job that ran out of time is %s", ended.State)
	}
}

func repeatsOutcomes(x *trial) {
	x.front.add(&rule{method: http.MethodPost, suffix: "/complete", times: 1, lose: true})
	x.front.add(refuse(http.MethodPost, "/snooze", 6, http.StatusServiceUnavailable, problem.CoreUnavailable, 1))
	w := x.work(1)
	x.completes(x.scripted([]step{{Do: "snooze", DelayMS: 1, Message: "m"}}, []step{{Do: "return", Value: 1}}), "1", 1, 2)
	w.stop()
	sent := x.front.requests(http.MethodPost, "/complete")
	if len(sent) != 2 || !bytes.Equal(sent[0].body, sent[1].body) {
		x.Errorf("%d completes", len(sent))
	}
	if snoozed := x.front.requests(http.MethodPost, "/snooze"); len(snoozed) != 7 {
		x.Errorf("%d snoozes, want 7", len(snoozed))
	}
}

func refusedOutcomes(x *trial) {
	x.front.add(refuse(http.MethodPost, "/complete", 1, http.StatusUnprocessableEntity, problem.InvalidRequest, 0))
	x.front.add(refuse(http.MethodPost, "/snooze", 1, http.StatusGone, problem.NotFound, 0))
	w := x.work(1)
	if e := x.dies(x.scripted([]step{{Do: "return", Value: 1}}), api.ReasonPermanent); e.Type != "result" || !strings.Contains(e.Message, "said by the front") {
		x.Errorf("the error is %+v", e)
	}
	if e := x.dies(x.scripted([]step{{Do: "large"}}), api.ReasonPermanent); e.Type != "result" {
		x.Errorf("of a large result: %+v", e)
	}
	if e := x.dies(x.scripted([]step{{Do: "unencodable"}}), api.ReasonPermanent); e.Type != "result" {
		x.Errorf("of what is no JSON: %+v", e)
	}
	gone := x.scripted([]step{{Do: "snooze", DelayMS: 1, Message: "m"}})
	x.front.await(x.T, "the snooze is answered 410", http.MethodPost, gone+"/snooze", func(one exchange) bool { return one.status == http.StatusGone })
	x.completes(x.scripted([]step{{Do: "return", Value: 2}}), "2", 1, 1) // the slot is free again
	w.stop()
	if sent := len(x.front.requests(http.MethodPost, "/snooze")); sent != 1 {
		x.Errorf("410 was answered %d times", sent)
	}
	if sent := len(x.front.requests(http.MethodPost, "/complete")); sent != 2 {
		x.Errorf("%d completes, want 2", sent)
	}
}

func staleOutcome(x *trial) {
	w := x.work(1)
	// An attempt that does not listen returns its result after the lease was taken back.
	job := x.scripted([]step{{Do: "ended"}, {Do: "go"}, {Do: "return", Value: "stale"}})
	w.started(job, 1)
	x.front.add(&rule{method: http.MethodPost, suffix: "/v1/claims", times: -1, hang: true})
	if err := x.c.RemoveWorker(x.Context(), w.id); err != nil {
		x.Fatal(err)
	}
	other := stack.ClaimOne(x.T, x.c, x.queue+"-other", x.queue)
	if _, err := x.c.Complete(x.Context(), other.ID, api.CompleteRequest{LeaseToken: other.LeaseToken, Result: json.RawMessage(`"other"`)}); err != nil {
		x.Fatal(err)
	}
	w.told(job, 1, "lease_lost")
	w.goOn(job)
	x.front.await(x.T, "the stale outcome is refused", http.MethodPost, "/complete", func(one exchange) bool { return one.status == http.StatusConflict })
	w.stop()
	x.completes(job, `"other"`, 1, 2)
	if sent := x.front.requests(http.MethodPost, "/complete"); len(sent) != 1 {
		x.Errorf("it was sent %d times", len(sent))
	}
}

func unfitReports(x *trial) {
	x.leases(visible)
	// A report that the server refuses costs no lease.
	x.front.add(refuse(http.MethodPost, "/heartbeat", 1, http.StatusBadRequest, problem.InvalidRequest, 0))
	w := x.work(1)
	percent := 10.0
	job := x.scripted([]step{{Do: "progress", Percent: &percent, Message: "dropped"}, {Do: "go"}, {Do: "return"}})
	x.front.await(x.T, "a heartbeat without reports", http.MethodPost, "/heartbeat", func(one exchange) bool {
		return one.status == http.StatusOK && strings.Contains(string(one.body), job) && !strings.Contains(string(one.body), "progress")
	})
	w.goOn(job)
	x.completes(job, "null", 1, 1)
	if refused := x.front.requests(http.MethodPost, "/heartbeat")[0]; refused.status != http.StatusBadRequest || !strings.Contains(string(refused.body), "dropped") {
		x.Errorf("the refused heartbeat: %d %s", refused.status, refused.body)
	}
}

func drains(x *trial) {
	d := x.subject.start(x.T)
	w := x.begin(d, command{Concurrency: 2, Signals: true, GraceMS: stack.Patience(5 * time.Minute).Milliseconds()})
	job := x.scripted([]step{{Do: "go"}, {Do: "return", Value: "in time"}})
	w.started(job, 1)
	d.process.Signal(syscall.SIGTERM)
	stack.Eventually(x.T, time.Minute, "it stops", func() bool { return strings.Contains(d.process.Output(), "worker stopping") })
	late := x.scripted([]step{{Do: "return"}})
	w.goOn(job)
	w.stopped()
	x.completes(job, `"in time"`, 1, 1)
	// The claim that the stop cut off may have taken it on its way: then it is given back, and no attempt is counted.
	stack.Eventually(x.T, time.Minute, "a job that came during the stop is queued", func() bool {
		job := stack.Get(x.T, x.c, late)
		return job.State == api.StateQueued && job.Attempt == 0 && job.Epoch <= 1
	})
}

func releases(x *trial) {
	d := x.subject.start(x.T)
	w := x.begin(d, command{Concurrency: 2, Signals: true, GraceMS: 1})
	listens := x.scripted([]step{{Do: "ended"}, {Do: "rethrow"}})
	deaf := x.scripted([]step{{Do: "go"}})
	w.started(listens, 1)
	w.started(deaf, 1)
	d.process.Signal(syscall.SIGTERM)
	w.told(listens, 1, "stopping")
	w.stopped()
	for _, id := range []string{listens, deaf} {
		if job := stack.Get(x.T, x.c, id); job.State != api.StateQueued || job.Attempt != 0 || job.Epoch != 1 {
			x.Errorf("after the stop the job is %s at attempt %d, epoch %d", job.State, job.Attempt, job.Epoch)
		}
	}
}

func endsWithItsKey(x *trial) {
	w := x.begin(x.driver, command{Concurrency: 1, GraceMS: 1, Key: "fq_live_nobody"})
	if l := x.driver.answered(x.T, "work", w.ended); l.Error == nil || l.Error.Code != string(problem.Unauthenticated) {
		x.Errorf("a key that is not known: %+v", l.Error)
	}
	x.front.add(refuse(http.MethodPost, "/v1/workers", 2, http.StatusServiceUnavailable, problem.CoreUnavailable, 1))
	x.front.add(refuse(http.MethodPost, "/v1/claims", 2, http.StatusServiceUnavailable, problem.CoreUnavailable, 1))
	x.front.add(&rule{method: http.MethodPost, suffix: "/v1/claims", times: 1, status: http.StatusOK, body: "no JSON"})
	x.work(1)
	x.completes(x.scripted([]step{{Do: "return", Value: 1}}), "1", 1, 1)
}
