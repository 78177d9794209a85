package operations_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ended stores one job, and completes it, or has it die.
func ended(f *calltest.Core, kind string, change ...func(*api.SubmitRequest)) api.Job {
	f.Helper()
	id := calltest.Decode[api.SubmitResponse](f, calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(change...))).ID
	o := f.Outcome(f.Tenant, api.OutcomeRequest{JobID: id, Kind: kind, LeaseToken: f.Claim().LeaseToken, Permanent: kind == api.KindFail})
	if o.Problem != nil {
		f.Fatal(o.Problem)
	}
	return f.Get(id)
}

func rerunOf(id string, differs ...func(*api.SubmitRequest)) hop.RerunJobRequest {
	request := hop.RerunJobRequest{JobID: id, ID: uuid.Must(uuid.NewV7()).String()}
	for _, d := range differs {
		d(&request.Job.SubmitRequest)
	}
	return request
}

func rerun(f *calltest.Core, request hop.RerunJobRequest) api.Job {
	f.Helper()
	made := calltest.Decode[api.SubmitResponse](f, calltest.One[json.RawMessage](f, hop.RerunJob.Path, f.Tenant, request))
	if made.ID != request.ID || made.RerunOf == nil || *made.RerunOf != request.JobID || len(made.Warnings) > 1 {
		f.Errorf("rerun = %+v", made)
	}
	return f.Get(made.ID)
}

// A rerun is like the ended job, and names it wherever it is shown, also after it has moved.
func TestARerunIsLikeTheEndedJob(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	deadline := api.At(time.Now().Add(time.Hour))
	old := ended(f, api.KindComplete, func(r *api.SubmitRequest) {
		r.Priority, r.MaxAttempts, r.TimeoutMS, r.User, r.DedupeKey, r.Deadline = new(9), new(2), new(int64(4000)), new("ada"), new("k"), &deadline
		r.Metadata, r.Retry = map[string]string{"a": "b"}, &api.RetryRequest{BaseMS: new(int64(7)), Curve: new("linear")}
	})
	for round := range 2 { // the second is of a rerun
		got := rerun(f, rerunOf(old.ID))
		want := old
		want.ID, want.State, want.RerunOf, want.DedupeKey, want.Result = got.ID, api.StateQueued, &old.ID, nil, got.Result
		want.Attempt, want.Epoch, want.Redrives, want.WorkerID, want.StartedAt, want.FinishedAt = 0, 0, 0, nil, nil, nil
		want.CreatedAt, want.RunAt = got.CreatedAt, got.RunAt
		if !reflect.DeepEqual(got, want) {
			t.Errorf("round %d: %+v, want %+v", round, got, want)
		}
		if o := f.Outcome(f.Tenant, api.OutcomeRequest{JobID: got.ID, Kind: api.KindFail, LeaseToken: f.Claim().LeaseToken, Permanent: true}); o.Problem != nil {
			t.Fatal(o.Problem)
		}
		page := calltest.One[api.Page[api.JobSummary]](f, hop.ListJobs.Path, f.Tenant, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageSize: 1}})
		if page.Items[0].ID != got.ID || page.Items[0].RerunOf == nil || page.Items[0].State != api.StateDeadLetter {
			t.Errorf("round %d: listed %+v", round, page.Items)
		}
		redriven := calltest.One[api.JobSummary](f, hop.RedriveJob.Path, f.Tenant, hop.ID{ID: got.ID})
		if redriven.RerunOf == nil || *redriven.RerunOf != old.ID {
			t.Errorf("round %d: redriven %+v", round, redriven)
		}
		if err := f.Memory.PassGates(t.Context(), uuid.MustParse(f.Tenant.Tenant)); err != nil {
			t.Fatal(err)
		}
		if o := f.Outcome(f.Tenant, api.OutcomeRequest{JobID: got.ID, Kind: api.KindComplete, LeaseToken: f.Claim().LeaseToken}); o.Problem != nil {
			t.Fatal(o.Problem)
		}
		if old = f.Get(got.ID); old.State != api.StateCompleted || old.RerunOf == nil {
			t.Errorf("round %d: completed %+v", round, old)
		}
	}
}

func TestWhatARerunSaysTakesTheOldOnesPlace(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	soon := api.At(time.Now().Add(time.Hour))
	old := ended(f, api.KindFail, func(r *api.SubmitRequest) {
		r.Metadata, r.Deadline, r.Retry = map[string]string{"a": "b", "c": "d"}, &soon, &api.RetryRequest{BaseMS: new(int64(7)), CapMS: new(int64(70))}
	})
	f.Exec(`UPDATE dead_letters SET deadline = now() - interval '1 second'`) // it is not taken over
	got := rerun(f, rerunOf(old.ID, func(r *api.SubmitRequest) {
		r.Type, r.Queue, r.Payload, r.Metadata, r.DedupeKey = "other", "there", json.RawMessage(`[1.50]`), map[string]string{"e": "f"}, new("new")
		r.Tags, r.Priority, r.DelayMS, r.Retry = []string{"gpu"}, new(0), new(int64(60_000)), &api.RetryRequest{CapMS: new(int64(90))}
	}))
	if got.Type != "other" || got.Queue != "there" || string(got.Payload) != `[1.50]` || len(got.Metadata) != 1 || got.Metadata["e"] != "f" || *got.DedupeKey != "new" ||
		len(got.Tags) != 1 || got.Priority != 0 || got.State != api.StateScheduled || got.Deadline != nil || got.Retry.BaseMS != 7 || got.Retry.CapMS != 90 {
		t.Errorf("rerun = %+v", got)
	}
	if stays := f.Get(old.ID); stays.State != api.StateDeadLetter {
		t.Errorf("the dead letter is %s", stays.State)
	}
	// the same dedupe_key again: the live job
	again := calltest.Decode[api.SubmitResponse](f, calltest.One[json.RawMessage](f, hop.RerunJob.Path, f.Tenant, rerunOf(old.ID, func(r *api.SubmitRequest) { r.DedupeKey = new("new") })))
	if again.ID != got.ID || !again.Deduplicated {
		t.Errorf("deduplicated = %+v", again)
	}
}

func TestReruns(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	live := f.Submit()
	id := f.Submit()
	if got := calltest.Ask[hop.CancelResponse](f, hop.CancelJob.Path, calltest.Item(f.Tenant, hop.ID{ID: id}))[0]; got.Problem != nil {
		t.Fatal(got.Problem)
	}
	long := hop.RerunJobRequest{JobID: id, ID: uuid.NewString()} // of version 4
	for name, want := range map[string]struct {
		item hop.Item[hop.RerunJobRequest]
		code problem.Code
	}{
		"live":            {calltest.Item(f.Tenant, rerunOf(live)), problem.JobLive},
		"unknown":         {calltest.Item(f.Tenant, rerunOf(uuid.Must(uuid.NewV7()).String())), problem.NotFound},
		"malformed":       {calltest.Item(f.Tenant, rerunOf("x")), problem.NotFound},
		"another tenant":  {calltest.Item(f.NewTenant(), rerunOf(id)), problem.NotFound},
		"another user":    {calltest.Item(calltest.UserOf(f.Tenant, "bob"), rerunOf(id)), problem.NotFound},
		"a wrong field":   {calltest.Item(f.Tenant, rerunOf(id, func(r *api.SubmitRequest) { r.Priority = new(10) })), problem.InvalidRequest},
		"two times":       {calltest.Item(f.Tenant, rerunOf(id, func(r *api.SubmitRequest) { r.RunAt, r.DelayMS = &api.Time{Time: time.Now()}, new(int64(1)) })), problem.InvalidRequest},
		"an id of chance": {calltest.Item(f.Tenant, long), problem.Overloaded},
		"the platform":    {calltest.Item(calltest.Platform(), rerunOf(id)), problem.Forbidden},
	} {
		if got := calltest.Ask[json.RawMessage](f, hop.RerunJob.Path, want.item)[0]; got.Problem == nil || got.Problem.Code != want.code {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A repeat with the same Idempotency-Key gets the first answer, whatever has become of the ended job.
func TestARerunIsReplayed(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	old := ended(f, api.KindFail)
	keyed := func(key, body string) hop.Item[hop.RerunJobRequest] {
		request := rerunOf(old.ID)
		request.Idempotency = &hop.Idempotency{Operation: "rerun " + old.ID, Key: key, Fingerprint: strings.Repeat(body, 64)}
		return calltest.Item(f.Tenant, request)
	}
	first := calltest.Ask[json.RawMessage](f, hop.RerunJob.Path, keyed("k", "a"))[0]
	if first.Status != http.StatusAccepted || first.Replayed {
		t.Fatalf("%+v", first)
	}
	states := map[string]func(){
		"dead":      func() {},
		"redriven":  func() { calltest.One[api.JobSummary](f, hop.RedriveJob.Path, f.Tenant, hop.ID{ID: old.ID}) },
		"forgotten": func() { f.Exec(`DELETE FROM jobs WHERE id = $1`, old.ID) },
	}
	for i, name := range []string{"dead", "redriven", "forgotten"} {
		states[name]()
		if again := calltest.Ask[json.RawMessage](f, hop.RerunJob.Path, keyed("k", "a"))[0]; !again.Replayed || again.Status != http.StatusAccepted || string(*again.Value) != string(*first.Value) {
			t.Errorf("%s: %+v", name, again)
		}
		if other := calltest.Ask[json.RawMessage](f, hop.RerunJob.Path, keyed("k", "b"))[0]; other.Problem == nil || other.Problem.Code != problem.IdempotencyMismatch {
			t.Errorf("%s, another body: %+v", name, other)
		}
		want := []problem.Code{"", problem.JobLive, problem.NotFound}[i]
		if fresh := calltest.Ask[json.RawMessage](f, hop.RerunJob.Path, keyed("fresh "+name, "a"))[0]; want == "" && fresh.Status != http.StatusAccepted || want != "" && (fresh.Problem == nil || fresh.Problem.Code != want) {
			t.Errorf("%s, another key: %+v", name, fresh)
		}
	}
}
