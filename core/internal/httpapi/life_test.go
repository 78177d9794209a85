package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestALife(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit()
	worker := one[api.Worker](f, hop.RegisterWorker.Path, f.tenant, api.WorkerRequest{WorkerID: "w1", Queues: []string{"default"}})
	if worker.Status != api.WorkerActive {
		t.Errorf("worker = %+v", worker)
	}
	claimed := f.claim()
	if claimed.ID != id || claimed.Attempt != 1 || string(claimed.Payload) != `{"a":"<&>"}` || claimed.Tenant != f.tenant.Tenant {
		t.Errorf("claimed = %+v, payload %s", claimed, claimed.Payload)
	}
	beat := one[api.HeartbeatResponse](f, hop.Heartbeat.Path, f.tenant, hop.WorkerHeartbeat{
		WorkerID: "w1", Leases: []api.Lease{
			{JobID: uuid.NewString(), LeaseToken: "garbage"},
			{JobID: claimed.ID, LeaseToken: claimed.LeaseToken},
			{JobID: "garbage", LeaseToken: claimed.LeaseToken},
			{JobID: claimed.ID, LeaseToken: "garbage"},
			{},
		},
	})
	var got []string
	for _, lease := range beat.Leases {
		got = append(got, lease.Status)
	}
	if strings.Join(got, ",") != "lost,ok,lost,lost,lost" || beat.Leases[1].LeaseExpiresAt.Before(claimed.LeaseExpiresAt.Time) {
		t.Errorf("heartbeat = %+v", beat)
	}
	complete := api.OutcomeRequest{JobID: id, Kind: api.KindComplete, LeaseToken: claimed.LeaseToken, Result: json.RawMessage(`{"r":1.50}`)}
	for range 2 { // a repeat is answered like the first
		if o := f.outcome(f.tenant, complete); o.Status != http.StatusOK || o.Outcome.State != api.StateCompleted {
			t.Errorf("complete: %+v", o)
		}
	}
	complete.Result = json.RawMessage(`2`)
	if o := f.outcome(f.tenant, complete); o.Problem == nil || o.Problem.Code != problem.OutcomeConflict {
		t.Errorf("another result: %+v", o)
	}
	if job := f.get(id); job.State != api.StateCompleted || string(job.Result) != `{"r":1.50}` || string(job.Payload) != `{"a":"<&>"}` {
		t.Errorf("job = %+v, result %s", job.JobSummary, job.Result)
	}
}

func TestThePlatformClaimsAndFinishes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit()
	claimed := one[api.ClaimResponse](f, hop.ClaimJobs.Path, platform(), claimOf(0)).Jobs
	if len(claimed) != 1 || claimed[0].ID != id || claimed[0].Tenant != f.tenant.Tenant {
		t.Fatalf("claimed = %+v", claimed)
	}
	beat := one[api.HeartbeatResponse](f, hop.Heartbeat.Path, platform(), hop.WorkerHeartbeat{
		WorkerID: "w1", Leases: []api.Lease{{JobID: id, LeaseToken: claimed[0].LeaseToken}},
	})
	if beat.Leases[0].Status != api.LeaseOK {
		t.Errorf("heartbeat = %+v", beat)
	}
	o := f.outcome(platform(), api.OutcomeRequest{
		JobID: id, Kind: api.KindFail, LeaseToken: claimed[0].LeaseToken, Permanent: true,
		Error: &api.JobError{Type: "T", Message: "a\x00b"},
	})
	if o.Problem != nil || o.Outcome.State != api.StateDeadLetter || f.get(id).LastError.Message != "ab" {
		t.Errorf("fail: %+v", o)
	}
}

// A worker's goodbye is its owner's, and a key that is bound to a user has no worker.
func TestAWorkerLeaves(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit()
	claimed := f.claim()
	leave := hop.ID{ID: "w1"}
	for name, p := range map[string]hop.Principal{"another tenant": f.newTenant(), "the platform": platform()} {
		if got := ask[any](f, hop.Leave.Path, item(p, leave))[0]; got.Status != http.StatusOK {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, p := range map[string]hop.Principal{"a user": userOf(f.tenant, "bob"), "the operator": operator()} {
		if got := ask[any](f, hop.Leave.Path, item(p, leave))[0]; got.Problem == nil || got.Problem.Code != problem.Forbidden {
			t.Errorf("%s: %+v", name, got)
		}
	}
	workers := func() int {
		return len(one[api.Page[api.Worker]](f, hop.ListWorkers.Path, f.tenant, hop.PageRequest{}).Items)
	}
	if job := f.get(id); job.State != api.StateRunning || workers() != 1 {
		t.Fatalf("others made it leave: the job is %s, %d workers", job.State, workers())
	}
	for _, got := range ask[any](f, hop.Leave.Path, item(f.tenant, leave), item(f.tenant, leave)) { // a repeat, too
		if got.Status != http.StatusOK || got.Problem != nil {
			t.Errorf("the worker itself: %+v", got)
		}
	}
	if job := f.get(id); job.State != api.StateQueued || job.Attempt != 0 || workers() != 0 {
		t.Errorf("the job is %s at attempt %d, %d workers", job.State, job.Attempt, workers())
	}
	late := f.outcome(f.tenant, api.OutcomeRequest{JobID: id, Kind: api.KindComplete, LeaseToken: claimed.LeaseToken})
	if late.Problem == nil || late.Problem.Code != problem.LeaseLost {
		t.Errorf("a late complete: %+v", late)
	}
	if again := f.claim(); again.ID != id || again.Attempt != 1 || workers() != 1 {
		t.Errorf("claimed again: %+v, %d workers", again, workers())
	}
}

func TestForeignJobsAreNotThere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit()
	claimed := f.claim()
	stranger := f.newTenant()
	for name, p := range map[string]hop.Principal{"another tenant": stranger, "another user": userOf(f.tenant, "bob")} {
		if got := ask[api.Job](f, hop.GetJob.Path, item(p, hop.ID{ID: id}))[0]; got.Status != http.StatusNotFound {
			t.Errorf("get as %s: %+v", name, got)
		}
	}
	for _, missing := range []string{"nonsense", uuid.NewString(), "", strings.ReplaceAll(id, "-", "")} {
		if got := ask[api.Job](f, hop.GetJob.Path, item(f.tenant, hop.ID{ID: missing}))[0]; got.Status != http.StatusNotFound {
			t.Errorf("get %q: %+v", missing, got)
		}
	}
	for _, kind := range []string{api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease} {
		request := api.OutcomeRequest{JobID: id, Kind: kind, LeaseToken: claimed.LeaseToken}
		if kind == api.KindSnooze {
			request.DelayMS = new(int64(1))
		}
		o := f.outcome(stranger, request)
		if o.Status != http.StatusNotFound {
			t.Errorf("%s by a stranger: %+v", kind, o)
		}
	}
	if beat := ask[api.HeartbeatResponse](f, hop.Heartbeat.Path, item(stranger, hop.WorkerHeartbeat{WorkerID: "w1"}))[0]; beat.Problem == nil ||
		beat.Problem.Code != problem.WorkerUnknown {
		t.Errorf("heartbeat of a stranger's worker: %+v", beat)
	}
	if job := f.get(id); job.State != api.StateRunning {
		t.Errorf("job is %s", job.State)
	}
}

func TestOutcomesAreAnsweredOneByOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit()
	claimed := f.claim()
	good := api.OutcomeRequest{JobID: id, Kind: api.KindComplete, LeaseToken: claimed.LeaseToken}
	bogus, garbage, foreign := good, good, good
	bogus.Kind, bogus.JobID = "bogus", uuid.NewString()
	garbage.LeaseToken = "garbage"
	foreign.JobID = uuid.NewString()
	results := one[api.OutcomesResponse](f, hop.ReportOutcomes.Path, f.tenant, api.OutcomesRequest{
		Outcomes: []api.OutcomeRequest{bogus, garbage, good, foreign, good},
	}).Results
	var got []int
	for i, r := range results {
		if r.Index != i || (r.Outcome == nil) == (r.Problem == nil) {
			t.Errorf("result %d: %+v", i, r)
		}
		got = append(got, r.Status)
	}
	if want := []int{400, 409, 200, 404, 200}; !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
	for _, n := range []int{0, api.MaxOutcomes + 1} {
		r := ask[api.OutcomesResponse](f, hop.ReportOutcomes.Path, item(f.tenant, api.OutcomesRequest{Outcomes: make([]api.OutcomeRequest, n)}))[0]
		if r.Problem == nil || r.Problem.Code != problem.InvalidRequest {
			t.Errorf("%d outcomes: %+v", n, r)
		}
	}
}

func TestAReplayIsSaidToBeOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := job()
	first.Idempotency = &hop.Idempotency{Operation: "submit", Key: "k", Fingerprint: strings.Repeat("ab", 32)}
	second := job()
	second.Idempotency = first.Idempotency
	other := job()
	other.Idempotency = &hop.Idempotency{Operation: "submit", Key: "k", Fingerprint: strings.Repeat("cd", 32)}
	a := ask[json.RawMessage](f, hop.SubmitJobs.Path, item(f.tenant, first))[0]
	b := ask[json.RawMessage](f, hop.SubmitJobs.Path, item(f.tenant, second), item(f.tenant, other))
	if a.Replayed || a.Status != http.StatusAccepted || !b[0].Replayed || b[0].Status != a.Status || string(*a.Value) != string(*b[0].Value) {
		t.Errorf("first %+v, second %+v", a, b[0])
	}
	if b[1].Problem == nil || b[1].Problem.Code != problem.IdempotencyMismatch {
		t.Errorf("another body: %+v", b[1])
	}
}

func TestTimesArePassedOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	request := job(func(r *api.SubmitRequest) { r.DelayMS = new(int64(60_000)) })
	sent := item(f.tenant, request)
	sent.CorrelationID, sent.Traceparent = "c-1", "00-trace"
	result := ask[json.RawMessage](f, hop.SubmitJobs.Path, sent)[0]
	got := decode[api.SubmitResponse](f, *result.Value)
	if got.State != api.StateScheduled || got.RunAt.Sub(got.CreatedAt.Time) != time.Minute || *got.CorrelationID != "c-1" || *got.Traceparent != "00-trace" {
		t.Errorf("job = %+v", got)
	}
}
