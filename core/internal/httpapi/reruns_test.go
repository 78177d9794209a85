package httpapi_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ended stores one job, and completes it, or has it die.
func (f *fixture) ended(kind string, change ...func(*api.SubmitRequest)) api.Job {
	f.Helper()
	id := decode[api.SubmitResponse](f, one[json.RawMessage](f, hop.SubmitJobs.Path, f.tenant, job(change...))).ID
	o := f.outcome(f.tenant, api.OutcomeRequest{JobID: id, Kind: kind, LeaseToken: f.claim().LeaseToken, Permanent: kind == api.KindFail})
	if o.Problem != nil {
		f.Fatal(o.Problem)
	}
	return f.get(id)
}

func rerunOf(id string, differs ...func(*api.SubmitRequest)) hop.RerunJobRequest {
	request := hop.RerunJobRequest{JobID: id, ID: uuid.Must(uuid.NewV7()).String()}
	for _, d := range differs {
		d(&request.Job.SubmitRequest)
	}
	return request
}

func (f *fixture) rerun(request hop.RerunJobRequest) api.Job {
	f.Helper()
	made := decode[api.SubmitResponse](f, one[json.RawMessage](f, hop.RerunJob.Path, f.tenant, request))
	if made.ID != request.ID || made.RerunOf == nil || *made.RerunOf != request.JobID || len(made.Warnings) > 1 {
		f.Errorf("rerun = %+v", made)
	}
	return f.get(made.ID)
}

// A rerun is like the ended job, and names it wherever it is shown, also after it has moved.
func TestARerunIsLikeTheEndedJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	deadline := api.At(time.Now().Add(time.Hour))
	old := f.ended(api.KindComplete, func(r *api.SubmitRequest) {
		r.Priority, r.MaxAttempts, r.TimeoutMS, r.User, r.DedupeKey, r.Deadline = new(9), new(2), new(int64(4000)), new("ada"), new("k"), &deadline
		r.Metadata, r.Retry = map[string]string{"a": "b"}, &api.RetryRequest{BaseMS: new(int64(7)), Curve: new("linear")}
	})
	for round := range 2 { // the second is of a rerun
		got := f.rerun(rerunOf(old.ID))
		want := old
		want.ID, want.State, want.RerunOf, want.DedupeKey, want.Result = got.ID, api.StateQueued, &old.ID, nil, got.Result
		want.Attempt, want.Epoch, want.Redrives, want.WorkerID, want.StartedAt, want.FinishedAt = 0, 0, 0, nil, nil, nil
		want.CreatedAt, want.RunAt = got.CreatedAt, got.RunAt
		if !reflect.DeepEqual(got, want) {
			t.Errorf("round %d: %+v, want %+v", round, got, want)
		}
		if o := f.outcome(f.tenant, api.OutcomeRequest{JobID: got.ID, Kind: api.KindFail, LeaseToken: f.claim().LeaseToken, Permanent: true}); o.Problem != nil {
			t.Fatal(o.Problem)
		}
		page := one[api.Page[api.JobSummary]](f, hop.ListJobs.Path, f.tenant, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageSize: 1}})
		if page.Items[0].ID != got.ID || page.Items[0].RerunOf == nil || page.Items[0].State != api.StateDeadLetter {
			t.Errorf("round %d: listed %+v", round, page.Items)
		}
		redriven := one[api.JobSummary](f, hop.RedriveJob.Path, f.tenant, hop.ID{ID: got.ID})
		if redriven.RerunOf == nil || *redriven.RerunOf != old.ID {
			t.Errorf("round %d: redriven %+v", round, redriven)
		}
		if o := f.outcome(f.tenant, api.OutcomeRequest{JobID: got.ID, Kind: api.KindComplete, LeaseToken: f.claim().LeaseToken}); o.Problem != nil {
			t.Fatal(o.Problem)
		}
		if old = f.get(got.ID); old.State != api.StateCompleted || old.RerunOf == nil {
			t.Errorf("round %d: completed %+v", round, old)
		}
	}
}

func TestWhatARerunSaysTakesTheOldOnesPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	soon := api.At(time.Now().Add(time.Hour))
	old := f.ended(api.KindFail, func(r *api.SubmitRequest) {
		r.Metadata, r.Deadline, r.Retry = map[string]string{"a": "b", "c": "d"}, &soon, &api.RetryRequest{BaseMS: new(int64(7)), CapMS: new(int64(70))}
	})
	f.exec(`UPDATE dead_letters SET deadline = now() - interval '1 second'`) // it is not taken over
	got := f.rerun(rerunOf(old.ID, func(r *api.SubmitRequest) {
		r.Type, r.Queue, r.Payload, r.Metadata, r.DedupeKey = "other", "there", json.RawMessage(`[1.50]`), map[string]string{"e": "f"}, new("new")
		r.Tags, r.Priority, r.DelayMS, r.Retry = []string{"gpu"}, new(0), new(int64(60_000)), &api.RetryRequest{CapMS: new(int64(90))}
	}))
	if got.Type != "other" || got.Queue != "there" || string(got.Payload) != `[1.50]` || len(got.Metadata) != 1 || got.Metadata["e"] != "f" || *got.DedupeKey != "new" ||
		len(got.Tags) != 1 || got.Priority != 0 || got.State != api.StateScheduled || got.Deadline != nil || got.Retry.BaseMS != 7 || got.Retry.CapMS != 90 {
		t.Errorf("rerun = %+v", got)
	}
	if stays := f.get(old.ID); stays.State != api.StateDeadLetter {
		t.Errorf("the dead letter is %s", stays.State)
	}
	// the same dedupe_key again: the live job
	again := decode[api.SubmitResponse](f, one[json.RawMessage](f, hop.RerunJob.Path, f.tenant, rerunOf(old.ID, func(r *api.SubmitRequest) { r.DedupeKey = new("new") })))
	if again.ID != got.ID || !again.Deduplicated {
		t.Errorf("deduplicated = %+v", again)
	}
}

func TestReruns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	live := f.submit()
	id := f.submit()
	if got := ask[hop.CancelResponse](f, hop.CancelJob.Path, item(f.tenant, hop.ID{ID: id}))[0]; got.Problem != nil {
		t.Fatal(got.Problem)
	}
	long := hop.RerunJobRequest{JobID: id, ID: uuid.NewString()} // of version 4
	for name, want := range map[string]struct {
		item hop.Item[hop.RerunJobRequest]
		code problem.Code
	}{
		"live":            {item(f.tenant, rerunOf(live)), problem.JobLive},
		"unknown":         {item(f.tenant, rerunOf(uuid.Must(uuid.NewV7()).String())), problem.NotFound},
		"malformed":       {item(f.tenant, rerunOf("x")), problem.NotFound},
		"another tenant":  {item(f.newTenant(), rerunOf(id)), problem.NotFound},
		"another user":    {item(userOf(f.tenant, "bob"), rerunOf(id)), problem.NotFound},
		"a wrong field":   {item(f.tenant, rerunOf(id, func(r *api.SubmitRequest) { r.Priority = new(10) })), problem.InvalidRequest},
		"two times":       {item(f.tenant, rerunOf(id, func(r *api.SubmitRequest) { r.RunAt, r.DelayMS = &api.Time{Time: time.Now()}, new(int64(1)) })), problem.InvalidRequest},
		"an id of chance": {item(f.tenant, long), problem.Overloaded},
		"the platform":    {item(platform(), rerunOf(id)), problem.Forbidden},
	} {
		if got := ask[json.RawMessage](f, hop.RerunJob.Path, want.item)[0]; got.Problem == nil || got.Problem.Code != want.code {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A repeat with the same Idempotency-Key gets the first answer, whatever has become of the ended job.
func TestARerunIsReplayed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old := f.ended(api.KindFail)
	keyed := func(key, body string) hop.Item[hop.RerunJobRequest] {
		request := rerunOf(old.ID)
		request.Idempotency = &hop.Idempotency{Operation: "rerun " + old.ID, Key: key, Fingerprint: strings.Repeat(body, 64)}
		return item(f.tenant, request)
	}
	first := ask[json.RawMessage](f, hop.RerunJob.Path, keyed("k", "a"))[0]
	if first.Status != http.StatusAccepted || first.Replayed {
		t.Fatalf("%+v", first)
	}
	states := map[string]func(){
		"dead":      func() {},
		"redriven":  func() { one[api.JobSummary](f, hop.RedriveJob.Path, f.tenant, hop.ID{ID: old.ID}) },
		"forgotten": func() { f.exec(`DELETE FROM jobs WHERE id = $1`, old.ID) },
	}
	for i, name := range []string{"dead", "redriven", "forgotten"} {
		states[name]()
		if again := ask[json.RawMessage](f, hop.RerunJob.Path, keyed("k", "a"))[0]; !again.Replayed || again.Status != http.StatusAccepted || string(*again.Value) != string(*first.Value) {
			t.Errorf("%s: %+v", name, again)
		}
		if other := ask[json.RawMessage](f, hop.RerunJob.Path, keyed("k", "b"))[0]; other.Problem == nil || other.Problem.Code != problem.IdempotencyMismatch {
			t.Errorf("%s, another body: %+v", name, other)
		}
		want := []problem.Code{"", problem.JobLive, problem.NotFound}[i]
		if fresh := ask[json.RawMessage](f, hop.RerunJob.Path, keyed("fresh "+name, "a"))[0]; want == "" && fresh.Status != http.StatusAccepted || want != "" && (fresh.Problem == nil || fresh.Problem.Code != want) {
			t.Errorf("%s, another key: %+v", name, fresh)
		}
	}
}
