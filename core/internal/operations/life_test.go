package operations_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestALife(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	id := f.Submit()
	worker := calltest.One[api.Worker](f, hop.RegisterWorker.Path, f.Tenant, api.WorkerRequest{WorkerID: "w1", Queues: []string{"default"}})
	if worker.Status != api.WorkerActive {
		t.Errorf("worker = %+v", worker)
	}
	claimed := f.Claim()
	if claimed.ID != id || claimed.Attempt != 1 || string(claimed.Payload) != `{"a":"<&>"}` || claimed.Tenant != f.Tenant.Tenant {
		t.Errorf("claimed = %+v, payload %s", claimed, claimed.Payload)
	}
	beat := calltest.One[api.HeartbeatResponse](f, hop.Heartbeat.Path, f.Tenant, hop.WorkerHeartbeat{
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
		if o := f.Outcome(f.Tenant, complete); o.Status != http.StatusOK || o.Outcome.State != api.StateCompleted {
			t.Errorf("complete: %+v", o)
		}
	}
	complete.Result = json.RawMessage(`2`)
	if o := f.Outcome(f.Tenant, complete); o.Problem == nil || o.Problem.Code != problem.OutcomeConflict {
		t.Errorf("another result: %+v", o)
	}
	if job := f.Get(id); job.State != api.StateCompleted || string(job.Result) != `{"r":1.50}` || string(job.Payload) != `{"a":"<&>"}` {
		t.Errorf("job = %+v, result %s", job.JobSummary, job.Result)
	}
}

func TestThePlatformClaimsAndFinishes(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	id := f.Submit()
	claimed := calltest.One[api.ClaimResponse](f, hop.ClaimJobs.Path, calltest.Platform(), calltest.ClaimOf(0)).Jobs
	if len(claimed) != 1 || claimed[0].ID != id || claimed[0].Tenant != f.Tenant.Tenant {
		t.Fatalf("claimed = %+v", claimed)
	}
	beat := calltest.One[api.HeartbeatResponse](f, hop.Heartbeat.Path, calltest.Platform(), hop.WorkerHeartbeat{
		WorkerID: "w1", Leases: []api.Lease{{JobID: id, LeaseToken: claimed[0].LeaseToken}},
	})
	if beat.Leases[0].Status != api.LeaseOK {
		t.Errorf("heartbeat = %+v", beat)
	}
	o := f.Outcome(calltest.Platform(), api.OutcomeRequest{
		JobID: id, Kind: api.KindFail, LeaseToken: claimed[0].LeaseToken, Permanent: true,
		Error: &api.JobError{Type: "T", Message: "a\x00b"},
	})
	if o.Problem != nil || o.Outcome.State != api.StateDeadLetter || f.Get(id).LastError.Message != "ab" {
		t.Errorf("fail: %+v", o)
	}
}

// A worker's goodbye is its owner's, and a key that is bound to a user has no worker.
func TestAWorkerLeaves(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	id := f.Submit()
	claimed := f.Claim()
	leave := hop.ID{ID: "w1"}
	for name, p := range map[string]hop.Principal{"another tenant": f.NewTenant(), "the platform": calltest.Platform()} {
		if got := calltest.Ask[any](f, hop.Leave.Path, calltest.Item(p, leave))[0]; got.Status != http.StatusOK {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, p := range map[string]hop.Principal{"a user": calltest.UserOf(f.Tenant, "bob"), "the operator": calltest.Operator()} {
		if got := calltest.Ask[any](f, hop.Leave.Path, calltest.Item(p, leave))[0]; got.Problem == nil || got.Problem.Code != problem.Forbidden {
			t.Errorf("%s: %+v", name, got)
		}
	}
	workers := func() int {
		return len(calltest.One[api.Page[api.Worker]](f, hop.ListWorkers.Path, f.Tenant, hop.PageRequest{}).Items)
	}
	if job := f.Get(id); job.State != api.StateRunning || workers() != 1 {
		t.Fatalf("others made it leave: the job is %s, %d workers", job.State, workers())
	}
	for _, got := range calltest.Ask[any](f, hop.Leave.Path, calltest.Item(f.Tenant, leave), calltest.Item(f.Tenant, leave)) { // a repeat, too
		if got.Status != http.StatusOK || got.Problem != nil {
			t.Errorf("the worker itself: %+v", got)
		}
	}
	if job := f.Get(id); job.State != api.StateQueued || job.Attempt != 0 || workers() != 0 {
		t.Errorf("the job is %s at attempt %d, %d workers", job.State, job.Attempt, workers())
	}
	late := f.Outcome(f.Tenant, api.OutcomeRequest{JobID: id, Kind: api.KindComplete, LeaseToken: claimed.LeaseToken})
	if late.Problem == nil || late.Problem.Code != problem.LeaseLost {
		t.Errorf("a late complete: %+v", late)
	}
	if again := f.Claim(); again.ID != id || again.Attempt != 1 || workers() != 1 {
		t.Errorf("claimed again: %+v, %d workers", again, workers())
	}
}

func TestForeignJobsAreNotThere(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	id := f.Submit()
	claimed := f.Claim()
	stranger := f.NewTenant()
	for name, p := range map[string]hop.Principal{"another tenant": stranger, "another user": calltest.UserOf(f.Tenant, "bob")} {
		if got := calltest.Ask[api.Job](f, hop.GetJob.Path, calltest.Item(p, hop.ID{ID: id}))[0]; got.Status != http.StatusNotFound {
			t.Errorf("get as %s: %+v", name, got)
		}
	}
	for _, missing := range []string{"nonsense", uuid.NewString(), "", strings.ReplaceAll(id, "-", "")} {
		if got := calltest.Ask[api.Job](f, hop.GetJob.Path, calltest.Item(f.Tenant, hop.ID{ID: missing}))[0]; got.Status != http.StatusNotFound {
			t.Errorf("get %q: %+v", missing, got)
		}
	}
	for _, kind := range []string{api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease} {
		request := api.OutcomeRequest{JobID: id, Kind: kind, LeaseToken: claimed.LeaseToken}
		if kind == api.KindSnooze {
			request.DelayMS = new(int64(1))
		}
		o := f.Outcome(stranger, request)
		if o.Status != http.StatusNotFound {
			t.Errorf("%s by a stranger: %+v", kind, o)
		}
	}
	if beat := calltest.Ask[api.HeartbeatResponse](f, hop.Heartbeat.Path, calltest.Item(stranger, hop.WorkerHeartbeat{WorkerID: "w1"}))[0]; beat.Problem == nil ||
		beat.Problem.Code != problem.WorkerUnknown {
		t.Errorf("heartbeat of a stranger's worker: %+v", beat)
	}
	if job := f.Get(id); job.State != api.StateRunning {
		t.Errorf("job is %s", job.State)
	}
}

func TestOutcomesAreAnsweredOneByOne(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	id := f.Submit()
	claimed := f.Claim()
	good := api.OutcomeRequest{JobID: id, Kind: api.KindComplete, LeaseToken: claimed.LeaseToken}
	bogus, garbage, foreign := good, good, good
	bogus.Kind, bogus.JobID = "bogus", uuid.NewString()
	garbage.LeaseToken = "garbage"
	foreign.JobID = uuid.NewString()
	results := calltest.One[api.OutcomesResponse](f, hop.ReportOutcomes.Path, f.Tenant, api.OutcomesRequest{
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
		r := calltest.Ask[api.OutcomesResponse](f, hop.ReportOutcomes.Path, calltest.Item(f.Tenant, api.OutcomesRequest{Outcomes: make([]api.OutcomeRequest, n)}))[0]
		if r.Problem == nil || r.Problem.Code != problem.InvalidRequest {
			t.Errorf("%d outcomes: %+v", n, r)
		}
	}
}

func TestAReplayIsSaidToBeOne(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	first := calltest.Job()
	first.Idempotency = &hop.Idempotency{Operation: "submit", Key: "k", Fingerprint: strings.Repeat("ab", 32)}
	second := calltest.Job()
	second.Idempotency = first.Idempotency
	other := calltest.Job()
	other.Idempotency = &hop.Idempotency{Operation: "submit", Key: "k", Fingerprint: strings.Repeat("cd", 32)}
	a := calltest.Ask[json.RawMessage](f, hop.SubmitJobs.Path, calltest.Item(f.Tenant, first))[0]
	b := calltest.Ask[json.RawMessage](f, hop.SubmitJobs.Path, calltest.Item(f.Tenant, second), calltest.Item(f.Tenant, other))
	if a.Replayed || a.Status != http.StatusAccepted || !b[0].Replayed || b[0].Status != a.Status || string(*a.Value) != string(*b[0].Value) {
		t.Errorf("first %+v, second %+v", a, b[0])
	}
	if b[1].Problem == nil || b[1].Problem.Code != problem.IdempotencyMismatch {
		t.Errorf("another body: %+v", b[1])
	}
}

func TestTimesArePassedOn(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	request := calltest.Job(func(r *api.SubmitRequest) { r.DelayMS = new(int64(60_000)) })
	sent := calltest.Item(f.Tenant, request)
	sent.CorrelationID, sent.Traceparent = "c-1", "00-trace"
	result := calltest.Ask[json.RawMessage](f, hop.SubmitJobs.Path, sent)[0]
	got := calltest.Decode[api.SubmitResponse](f, *result.Value)
	if got.State != api.StateScheduled || got.RunAt.Sub(got.CreatedAt.Time) != time.Minute || *got.CorrelationID != "c-1" || *got.Traceparent != "00-trace" {
		t.Errorf("job = %+v", got)
	}
}
