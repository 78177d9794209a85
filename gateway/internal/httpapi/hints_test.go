package httpapi_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// full makes core refuse every submit by a cap, while it says so.
func (d *door) full(policy problem.Policy) (full *atomic.Bool) {
	full = &atomic.Bool{}
	full.Store(true)
	d.core.On(hop.SubmitJobs.Path, func(item coretest.Item) coretest.Result {
		var request hop.SubmitJobsRequest
		if err := json.Unmarshal(item.Request, &request); err != nil {
			d.t.Errorf("core got %s: %v", item.Request, err)
		}
		switch {
		case full.Load() && (!request.Batch || request.Atomic):
			p := problem.New(problem.ActiveCapReached, "core's own words")
			p.Policies = []problem.Policy{policy}
			return coretest.Result{Status: 429, Problem: p.WithRetryAfter(time.Second)}
		case request.Batch:
			return coretest.Value(200, map[string]any{"results": []any{}, "accepted": len(request.Jobs), "rejected": 0})
		}
		return coretest.Value(202, map[string]any{"id": request.IDs[0], "state": "queued"})
	})
	return full
}

// asksCore sends a request, and says whether core was asked.
func (d *door) asksCore(path, key, body string, headers ...string) (answer, bool) {
	d.t.Helper()
	before := d.submits()
	got := d.do("POST", path, key, body, headers...)
	return got, d.submits() > before
}

// hinted sends a request until a hint refuses it: hints travel beside the answers.
func (d *door) hinted(path, key, body string) problem.Problem {
	d.t.Helper()
	for began := time.Now(); time.Since(began) < hang; {
		if got, asked := d.asksCore(path, key, body); !asked {
			p := got.refused(d.t, 429, problem.ActiveCapReached)
			got.waits(d.t, p)
			return p
		}
	}
	d.t.Fatal("no hint refused anything")
	return problem.Problem{}
}

func TestAFullCapIsHinted(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	full := d.full(problem.Policy{Name: "tenant-active", Limit: 3, Current: 3})
	key := d.key("submit")
	if got, asked := d.asksCore("/v1/jobs", key, `{"type":"a"}`); !asked || got.refused(t, 429, problem.ActiveCapReached).Detail != "core's own words" {
		t.Errorf("the first: %s", got.body)
	}
	for path, body := range map[string]string{"/v1/jobs": `{"type":"a","user":"bob"}`, "/v1/jobs/batch": batchOf(2, "", true)} {
		if p := d.hinted(path, key, body); named(p) != "tenant-active 3/3" || p.Policies[0].RetryAfterMS == nil {
			t.Errorf("%s: %+v", path, p)
		}
	}
	// What may take no slot, or has an answer for each job, is core's to judge.
	for range 5 {
		for _, ask := range []struct {
			path, body string
			headers    []string
		}{
			{"/v1/jobs", `{"type":"a"}`, []string{"Idempotency-Key", "k"}},
			{"/v1/jobs", `{"type":"a","dedupe_key":"k"}`, nil},
			{"/v1/jobs/batch", batchOf(2, "", false), nil},
			{"/v1/jobs/batch", batchOf(2, "", true), []string{"Idempotency-Key", "l"}},
			{"/v1/jobs/batch", `{"atomic":true,"jobs":[{"type":"a"},{"type":"a","dedupe_key":"k"}]}`, nil},
		} {
			if got, asked := d.asksCore(ask.path, key, ask.body, ask.headers...); !asked {
				t.Errorf("%+v was refused by a hint: %s", ask, got.body)
			}
		}
	}
	full.Store(false)
	for began := time.Now(); ; {
		if got, _ := d.asksCore("/v1/jobs", key, `{"type":"a"}`); got.status == 202 {
			break
		}
		if time.Since(began) > hang {
			t.Fatal("the hint did not end")
		}
	}
}

func TestAFullCapOfAUserIsHisAlone(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	d.full(problem.Policy{Name: "user-active", Limit: 3, Current: 3})
	key := d.key("submit")
	if p := d.hinted("/v1/jobs", key, `{"type":"a","user":"bob"}`); named(p) != "user-active 3/3" {
		t.Errorf("%+v", p)
	}
	for _, body := range []string{`{"type":"a","user":"ann"}`, `{"type":"a"}`} {
		if _, asked := d.asksCore("/v1/jobs", key, body); !asked {
			t.Errorf("%s was refused by bob's hint", body)
		}
	}
}

// A batch that is too large for the room that is left says nothing of one job.
func TestACapWithSomeRoomIsNotFull(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	d.full(problem.Policy{Name: "tenant-active", Limit: 3, Current: 2})
	key := d.key("submit")
	for range 20 {
		d.do("POST", "/v1/jobs/batch", key, batchOf(2, "", true))
		if _, asked := d.asksCore("/v1/jobs", key, `{"type":"a"}`); !asked {
			t.Fatal("a hint refused a job for which there may be room")
		}
	}
}

// Where core knows when there is room for each, its callers are not refused by a hint before it; where very many wait, they
// are, for as long as core says.
func TestNoHintWhereRoomIsNear(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	d.full(problem.Policy{Name: "tenant-active", Limit: 3, Current: 3, RetryAfterMS: new(int64(1600))})
	key := d.key("submit")
	for range 20 {
		if got, asked := d.asksCore("/v1/jobs", key, `{"type":"a"}`); !asked {
			t.Fatalf("refused by a hint: %s", got.body)
		}
	}
	d.full(problem.Policy{Name: "tenant-active", Limit: 3, Current: 3, RetryAfterMS: new(int64(9000))})
	if p := d.hinted("/v1/jobs", key, `{"type":"a"}`); named(p) != "tenant-active 3/3" || *p.RetryAfterMS < 2500 || *p.RetryAfterMS > 5001 {
		t.Errorf("%+v", p)
	}
}
