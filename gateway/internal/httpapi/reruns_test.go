package httpapi_test

import (
	"slices"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// rerunning makes core take reruns.
func (d *door) rerunning() {
	d.core.On(hop.RerunJob.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(202, api.SubmitResponse{JobSummary: api.JobSummary{ID: jobID}})
	})
}

// A rerun's Idempotency-Key is of one job, with and without a body.
func TestRerun(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.rerunning()
	key := d.key("submit")
	for _, body := range []string{"", "{}", `{"priority":null}`, `{"priority":8,"payload":{"n":1.50}}`} {
		got := d.do("POST", "/v1/jobs/"+jobID+"/rerun", key, body, "Idempotency-Key", "k")
		if got.status != 202 || got.header.Get("Location") != "/v1/jobs/"+jobID {
			t.Fatalf("%s: %d %s", body, got.status, got.body)
		}
		sent := last[hop.RerunJobRequest](d, hop.RerunJob.Path)
		if sent.Idempotency == nil || sent.Idempotency.Key != "k" || sent.Idempotency.Operation != "rerun "+jobID || sent.JobID != jobID || len(sent.ID) != 36 || sent.Job.Type != "" {
			t.Errorf("%s: core got %+v", body, sent)
		}
	}
	if sent := last[hop.RerunJobRequest](d, hop.RerunJob.Path); *sent.Job.Priority != 8 || string(sent.Job.Payload) != `{"n":1.50}` {
		t.Errorf("core got %+v", sent)
	}
	for body, want := range map[string]problem.Code{`{"priority":10}`: problem.InvalidRequest, `{"type":"a b"}`: problem.InvalidRequest, `{"prio":1}`: problem.UnknownField} {
		d.do("POST", "/v1/jobs/"+jobID+"/rerun", key, body).refused(t, 400, want)
	}
	d.do("POST", "/v1/jobs/x/rerun", key, "").refused(t, 404, problem.NotFound)
}

// A key that is bound to a user makes jobs of that user only.
func TestRerunOfAUser(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.rerunning()
	key := d.keyWith(func(k *hop.KeyRecord) { k.Scopes, k.User = api.Scopes(), "ada" })
	for body, status := range map[string]int{"": 202, `{"user":"ada"}`: 202, `{"user":"bob"}`: 403} {
		got := d.do("POST", "/v1/jobs/"+jobID+"/rerun", key, body)
		if got.status != status {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
		if status != 202 {
			continue // it may be the first, and then core has got none
		}
		if sent := last[hop.RerunJobRequest](d, hop.RerunJob.Path); sent.Job.User == nil || *sent.Job.User != "ada" {
			t.Errorf("%s: core got %+v", body, sent)
		}
	}
}

// A rerun costs a job.
func TestRerunsAreUnderTheJobRate(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	d.rerunning()
	key := d.limited(api.Limits{JobsPerSecond: new(slowly), JobBurst: new(int64(2))})
	var got []int
	for range 3 {
		got = append(got, d.do("POST", "/v1/jobs/"+jobID+"/rerun", key, "").status)
	}
	if !slices.Equal(got, []int{202, 202, 429}) {
		t.Errorf("reruns under a burst of two: %v", got)
	}
}

// It is held as a submit is.
func TestRerunWaits(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.rerunning()
	d.core.On(hop.WaitForJob.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Job{JobSummary: api.JobSummary{ID: jobID, State: api.StateCompleted}})
	})
	if got := d.do("POST", "/v1/jobs/"+jobID+"/rerun", d.key("submit"), "", "Prefer", "wait=5"); got.status != 200 || got.header.Get("Preference-Applied") != "wait=5" {
		t.Errorf("%d %s", got.status, got.body)
	}
}
