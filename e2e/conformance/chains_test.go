package conformance_test

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// following is a job of the queue that follows; nobody has its type.
func (x *trial) following(change ...func(*api.SubmitRequest)) api.SubmitRequest {
	job := api.SubmitRequest{Type: "follower", Queue: x.queue}
	for _, c := range change {
		c(&job)
	}
	return job
}

// followers are how many there are.
func (x *trial) followers() int {
	x.Helper()
	page, err := x.c.List(x.Context(), api.JobFilter{Queue: x.queue, Type: "follower"}, client.PageRequest{Size: 200})
	if err != nil {
		x.Fatal(err)
	}
	return len(page.Items)
}

func chains(x *trial) {
	then := func(jobs ...api.SubmitRequest) step { return step{Do: "then", Jobs: jobs} }
	x.work(1)
	// The failure and the snooze submit nothing, and what they said is forgotten.
	x.completes(x.scripted(
		[]step{then(x.following()), {Do: "fail", Message: "again", RetryAfterMS: new(int64(0))}},
		[]step{then(x.following()), {Do: "snooze", DelayMS: 1, Message: "later"}},
		[]step{then(x.following(), x.following()), then(x.following()), {Do: "return"}},
	), "null", 2, 3)
	if n := x.followers(); n != 3 {
		x.Errorf("%d jobs follow", n)
	}

	wrong := x.dies(x.scripted([]step{then(x.following(), x.following(func(r *api.SubmitRequest) { r.Priority = new(17) })), {Do: "return"}}), api.ReasonPermanent)
	if wrong.Type != "submit" || !strings.Contains(wrong.Message, "submit[1].priority") {
		x.Errorf("the error of a job that is refused is %+v", wrong)
	}

	if _, err := x.c.Submit(x.Context(), x.following(func(r *api.SubmitRequest) { r.DedupeKey, r.Type = new("one"), "live" })); err != nil {
		x.Fatal(err)
	}
	live := x.dies(x.scripted([]step{then(x.following(func(r *api.SubmitRequest) { r.Dedupe = &api.Dedupe{Key: "one", OnLive: api.OnLiveFail} })), {Do: "return"}}), api.ReasonPermanent)
	if live.Type != "submit" || !strings.Contains(live.Message, "submit[0]") {
		x.Errorf("the error of a job whose dedupe key a live one has is %+v", live)
	}

	x.front.add(refuse(http.MethodPost, "/complete", 2, http.StatusTooManyRequests, problem.ActiveCapReached, 0))
	limited := x.scripted([]step{then(x.following()), {Do: "return"}})
	x.completes(limited, "null", 1, 1)
	if n := x.followers(); n != 4 {
		x.Errorf("%d jobs follow", n)
	}
	for _, in := range x.front.requests(http.MethodPost, limited+"/complete") {
		var sent api.CompleteRequest
		if json.Unmarshal(in.body, &sent) != nil || len(sent.Submit) != 1 {
			x.Errorf("sent was %s", in.body)
		}
	}
}
