package conformance_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func patches(x *trial) {
	job := stack.Submit(x.T, x.c, x.simple())
	etag := must[string](x, command{Do: "etag", Job: job})
	patch := func(version string, change api.JobPatch) command {
		return command{Do: "patch", Job: job, IfMatch: version, Request: raw(x, change)}
	}
	x.front.add(&rule{method: http.MethodPatch, suffix: job, times: 1, lose: true})
	changed := must[api.Job](x, patch("", api.JobPatch{Payload: json.RawMessage(`{"n":2}`), Tags: []string{"gpu"}, Metadata: map[string]string{"a": "b"}}))
	if string(changed.Payload) != `{"n":2}` || !slices.Equal(changed.Tags, []string{"gpu"}) || changed.Metadata["a"] != "b" || changed.Priority != api.DefaultPriority {
		x.Errorf("changed: %+v", changed)
	}
	if sent := x.front.requests(http.MethodPatch, job); len(sent) != 2 {
		x.Errorf("a change whose answer was lost took %d requests", len(sent))
	}
	if f := fails(x, patch(etag, api.JobPatch{Priority: new(1)})); f.Code != string(problem.PreconditionFailed) || f.Status != http.StatusPreconditionFailed {
		x.Errorf("of another version: %+v", f)
	}
	before := len(x.front.requests(http.MethodPatch, job))
	if f := fails(x, patch("two\nlines", api.JobPatch{Priority: new(1)})); f.Kind == "problem" || len(x.front.requests(http.MethodPatch, job)) != before {
		x.Errorf("an ETag that no header can carry: %+v", f)
	}
	etag = must[string](x, command{Do: "etag", Job: job})
	if changed = must[api.Job](x, patch(etag, api.JobPatch{Priority: new(0), Tags: []string{}, Metadata: map[string]string{}})); changed.Priority != 0 || len(changed.Tags) > 0 || len(changed.Metadata) > 0 {
		x.Errorf("of the version that was read: %+v", changed)
	}
	stack.ClaimOne(x.T, x.c, x.queue+"-test", x.queue)
	if f := fails(x, patch("", api.JobPatch{Priority: new(1)})); f.Code != string(problem.JobStarted) || f.Status != http.StatusConflict {
		x.Errorf("of a job that runs: %+v", f)
	}
}

func changesMany(x *trial) {
	one, later := x.simple(), x.simple()
	later.DelayMS = new(int64(3_600_000))
	ids := []string{stack.Submit(x.T, x.c, one), stack.Submit(x.T, x.c, later), stack.Submit(x.T, x.c, one)}
	stack.ClaimOne(x.T, x.c, x.queue+"-test", x.queue)
	many := func(request api.BulkRequest) bulked {
		x.Helper()
		request.Filter.Queue = &x.queue
		return must[bulked](x, command{Do: "bulk", Request: raw(x, request)})
	}
	if got := many(api.BulkRequest{Action: api.BulkSetPriority, To: &api.BulkTarget{Priority: new(9)}, RatePerSecond: new(100.0)}); got.Counted != 3 || got.Bulk.Done != 2 || got.Bulk.Refusals["job_started"] != 1 || got.Bulk.State != api.RedriveDone {
		x.Errorf("priority: %+v", got)
	}
	if job := stack.Get(x.T, x.c, ids[2]); job.Priority != 9 {
		x.Errorf("%+v", job)
	}
	if got := many(api.BulkRequest{Action: api.BulkCancel, Filter: api.BulkFilter{State: []string{api.StateQueued, api.StateScheduled}}}); got.Counted != 2 || got.Bulk.Done != 2 {
		x.Errorf("cancel: %+v", got)
	}
	if f := fails(x, command{Do: "bulk", Request: raw(x, api.BulkRequest{Action: api.BulkMove})}); f.Code != string(problem.InvalidRequest) {
		x.Errorf("without a queue to move to: %+v", f)
	}
}

func dedupes(x *trial) {
	const hour = 3_600_000
	submit := func(key, onLive, payload string, change ...func(*api.SubmitRequest)) command {
		job := x.simple()
		job.Payload, job.Dedupe = json.RawMessage(payload), &api.Dedupe{Key: key, OnLive: onLive}
		for _, c := range change {
			c(&job)
		}
		return command{Do: "submit", Request: raw(x, job)}
	}
	later := func(r *api.SubmitRequest) { r.DelayMS = new(int64(hour)) }
	extend := func(r *api.SubmitRequest) { r.DelayMS, r.Dedupe.MaxDelayMS = new(int64(2*hour)), new(int64(hour+1000)) }
	first := must[submitted](x, submit("waits", "", "1", later))
	payload := func(want string) api.Job {
		x.Helper()
		job := stack.Get(x.T, x.c, first.ID)
		if string(job.Payload) != want {
			x.Errorf("the live job has the payload %s, want %s", job.Payload, want)
		}
		return job
	}
	if kept := must[submitted](x, submit("waits", api.OnLiveKeep, "2")); kept.ID != first.ID || !kept.Deduplicated || kept.Replaced {
		x.Errorf("kept: %+v", kept)
	}
	payload("1")
	x.front.add(&rule{method: http.MethodPost, suffix: "/v1/jobs", times: 1, lose: true})
	if got := must[submitted](x, submit("waits", api.OnLiveReplace, "3")); got.ID != first.ID || got.Deduplicated || !got.Replaced || !got.Replayed || got.State != api.StateScheduled {
		x.Errorf("replaced: %+v", got)
	}
	before := payload("3")
	if got := must[submitted](x, submit("waits", api.OnLiveExtend, "4", extend)); got.ID != first.ID || !got.Replaced {
		x.Errorf("extended: %+v", got)
	}
	if job := payload("4"); job.RunAt.Sub(before.RunAt.Time) <= 0 || job.RunAt.Sub(job.CreatedAt.Time) != time.Hour+time.Second {
		x.Errorf("extended from %v to %v, made at %v", before.RunAt, job.RunAt, job.CreatedAt)
	}
	if f := fails(x, submit("waits", api.OnLiveFail, "5")); f.Code != string(problem.DedupeConflict) || f.Status != http.StatusConflict {
		x.Errorf("refused: %+v", f)
	}

	running := must[submitted](x, submit("runs", api.OnLiveReplace, "1"))
	claimed := stack.ClaimOne(x.T, x.c, x.queue+"-test", x.queue)
	follower := must[submitted](x, submit("runs", api.OnLiveReplace, "2"))
	last := must[submitted](x, submit("runs", api.OnLiveReplace, "3"))
	if follower.ID == running.ID || follower.Replaced || follower.Deduplicated || follower.State != api.StateBlocked || last.ID != follower.ID || !last.Replaced {
		x.Errorf("of one that runs: %+v, then %+v", follower, last)
	}
	if _, err := x.c.Complete(x.Context(), claimed.ID, api.CompleteRequest{LeaseToken: claimed.LeaseToken}); err != nil {
		x.Fatal(err)
	}
	if next := stack.ClaimOne(x.T, x.c, x.queue+"-test", x.queue); next.ID != follower.ID || string(next.Payload) != "3" {
		x.Errorf("what runs then is %s with %s", next.ID, next.Payload)
	}
}
