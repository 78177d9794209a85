package mask_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/httpapi/calltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const canary = "c4n4ry-4111"

// secretive makes a type with a sensitive field, and a job of it that has failed, spoken, been reported of, and died.
func secretive(f *calltest.Core) (dead string) {
	f.Helper()
	putType(f, "secret", `{"payload_schema": {"type": "object", "properties": {"card": {"type": "string", "x-sensitive": true}}},
		"result_schema": {"properties": {"token": {"x-sensitive": true}}}, "examples": [{"card": "`+canary+`"}]}`)
	dead = submit(f, "secret", `{"card": "`+canary+`", "open": "shown"}`)
	claimed := f.Claim()
	said := calltest.One[api.OutputAccepted](f, hop.AppendOutput.Path, f.Tenant, hop.AppendOutputRequest{
		ID: dead, Output: api.OutputRequest{LeaseToken: claimed.LeaseToken, Chunks: []api.OutputChunk{{Seq: 1, Stream: api.OutputOut, Text: canary}}},
	})
	if said.NextSeq != 2 {
		f.Fatal(said)
	}
	calltest.One[api.HeartbeatResponse](f, hop.Heartbeat.Path, f.Tenant, hop.WorkerHeartbeat{WorkerID: "w1", Leases: []api.Lease{{
		JobID: dead, LeaseToken: claimed.LeaseToken, Progress: &api.Progress{Message: new(canary)}, Checkpoint: json.RawMessage(`{"at": "` + canary + `"}`),
	}}})
	f.Outcome(f.Tenant, api.OutcomeRequest{
		JobID: dead, Kind: api.KindFail, LeaseToken: claimed.LeaseToken, Permanent: true, Error: &api.JobError{Type: "Declined", Message: "no " + canary, Stack: "at " + canary},
	})
	return dead
}

func putType(f *calltest.Core, name, text string) {
	f.Helper()
	calltest.One[hop.TypeVersion](f, hop.PutType.Path, withPayload(f), hop.PutTypeRequest{Name: name, Value: calltest.Decode[api.JobTypeRequest](f, []byte(text))})
}

func withPayload(f *calltest.Core) hop.Principal {
	p := f.Tenant
	p.Scopes = []string{api.ScopePayload}
	return p
}

func submit(f *calltest.Core, jobType, payload string) string {
	f.Helper()
	return calltest.Decode[api.SubmitResponse](f, calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(func(s *api.SubmitRequest) {
		s.Type, s.Payload = jobType, json.RawMessage(payload)
	}))).ID
}

// viewer lacks the scope payload.
func viewer(f *calltest.Core) hop.Principal {
	p := f.Tenant
	p.Scopes = []string{api.ScopeRead, api.ScopeManage, api.ScopeSubmit}
	return p
}

// asks is an answer of core, as it is sent.
func asks[Req any](f *calltest.Core, path string, p hop.Principal, request Req) string {
	f.Helper()
	return string(f.Send(f.Request(f.Context(), path, calltest.Envelope(calltest.Item(p, request)))).Body)
}

// Without the scope payload no answer has a byte of what the type marks, nor of what no schema describes; with it all do.
func TestNoAnswerHasWhatIsSensitive(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	dead := secretive(f)
	calltest.One[api.Schedule](f, hop.PutSchedule.Path, f.Tenant, hop.Put[api.ScheduleRequest]{Name: "s", Value: api.ScheduleRequest{
		EveryMS: new(int64(3_600_000)), Job: api.ScheduleJob{Type: "secret", Payload: json.RawMessage(`{"card": "` + canary + `"}`)},
	}})
	surfaces := map[string]func(p hop.Principal) string{
		"get-job":      func(p hop.Principal) string { return asks(f, hop.GetJob.Path, p, hop.ID{ID: dead}) },
		"wait-for-job": func(p hop.Principal) string { return asks(f, hop.WaitForJob.Path, p, hop.WaitForJobRequest{ID: dead}) },
		"list-jobs": func(p hop.Principal) string {
			return asks(f, hop.ListJobs.Path, p, hop.Filtered[api.JobFilter]{PageRequest: hop.PageRequest{PageSize: 10}})
		},
		"list-attempts": func(p hop.Principal) string {
			return asks(f, hop.ListAttempts.Path, p, hop.PageFor{For: dead, PageRequest: hop.PageRequest{PageSize: 10}})
		},
		"explain-job": func(p hop.Principal) string {
			return asks(f, hop.ExplainJob.Path, p, hop.ExplainJobRequest{ID: dead, Details: true})
		},
		"read-output": func(p hop.Principal) string { return asks(f, hop.ReadOutput.Path, p, hop.ReadOutputRequest{ID: dead}) },
		"list-dead-letters": func(p hop.Principal) string {
			return asks(f, hop.ListDeadLetters.Path, p, hop.Filtered[api.DeadLetterFilter]{PageRequest: hop.PageRequest{PageSize: 10}})
		},
		"group-dead-letters": func(p hop.Principal) string {
			return asks(f, hop.GroupDeadLetters.Path, p, hop.Filtered[api.DeadLetterFilter]{PageRequest: hop.PageRequest{PageSize: 10}})
		},
		"get-schedule":   func(p hop.Principal) string { return asks(f, hop.GetSchedule.Path, p, hop.Name{Name: "s"}) },
		"list-schedules": func(p hop.Principal) string { return asks(f, hop.ListSchedules.Path, p, hop.PageRequest{PageSize: 10}) },
		"get-type": func(p hop.Principal) string {
			return asks(f, hop.GetType.Path, p, hop.TypeVersionRequest{Name: "secret"})
		},
		"get-type-documents": func(p hop.Principal) string { return asks(f, hop.GetTypeDocuments.Path, p, struct{}{}) },
	}
	for name, ask := range surfaces {
		if got := ask(withPayload(f)); !strings.Contains(got, canary) {
			t.Errorf("%s: with the scope it is not there: %s", name, got)
		}
		if got := ask(viewer(f)); strings.Contains(got, canary) || !strings.Contains(got, "•••") {
			t.Errorf("%s: %s", name, got)
		}
	}
	shown := calltest.One[api.Job](f, hop.GetJob.Path, viewer(f), hop.ID{ID: dead})
	if string(shown.Payload) != `{"card":"•••","open":"shown"}` || shown.LastError.Type != "Declined" || shown.LastError.Message != "•••" {
		t.Errorf("%s %+v", shown.Payload, shown.LastError)
	}
}

// Redriven, a job waits with its last error: the answer to a submit that finds it has that error, and so has a repeat.
func TestAnswersToSubmitsAreMasked(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	putType(f, "secret", `{"payload_schema": {"x-sensitive": true}}`)
	again := func(p hop.Principal) string {
		return asks(f, hop.SubmitJobs.Path, p, calltest.Job(func(s *api.SubmitRequest) { s.Type, s.Payload, s.DedupeKey = "secret", json.RawMessage(`1`), new("d") }))
	}
	again(f.Tenant)
	claimed := f.Claim()
	f.Outcome(f.Tenant, api.OutcomeRequest{JobID: claimed.ID, Kind: api.KindFail, LeaseToken: claimed.LeaseToken, Error: &api.JobError{Type: "T", Message: canary}})
	if got := again(withPayload(f)); !strings.Contains(got, canary) || !strings.Contains(got, `"deduplicated":true`) {
		t.Error(got)
	}
	if got := again(viewer(f)); strings.Contains(got, canary) || !strings.Contains(got, `"deduplicated":true`) || !strings.Contains(got, "•••") {
		t.Error(got)
	}
}

// Workers see all, also by a key that reads but lacks the scope payload: they are to do the job.
func TestWorkersSeeAll(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	putType(f, "secret", `{"payload_schema": {"x-sensitive": true}, "result_schema": {"x-sensitive": true}}`)
	parent := submit(f, "secret", `"`+canary+`"`)
	worker := f.Tenant
	worker.Scopes = []string{api.ScopeWork, api.ScopeRead}
	claimed := calltest.One[api.ClaimResponse](f, hop.ClaimJobs.Path, worker, calltest.ClaimOf(0)).Jobs
	if len(claimed) != 1 || string(claimed[0].Payload) != `"`+canary+`"` {
		t.Fatalf("%+v", claimed)
	}
	f.Outcome(worker, api.OutcomeRequest{JobID: parent, Kind: api.KindComplete, LeaseToken: claimed[0].LeaseToken, Result: json.RawMessage(`"` + canary + `"`)})
	child := calltest.Decode[api.SubmitResponse](f, calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(func(s *api.SubmitRequest) {
		s.Type, s.After = "free", []api.Dependency{{JobID: parent}}
	}))).ID
	parents := func(p hop.Principal) string {
		return asks(f, hop.ListParents.Path, p, hop.PageFor{For: child, PageRequest: hop.PageRequest{PageSize: 10}})
	}
	if got := parents(worker); !strings.Contains(got, canary) {
		t.Error(got)
	}
	if got := parents(viewer(f)); strings.Contains(got, canary) || !strings.Contains(got, "•••") {
		t.Error(got)
	}
}

// A job that was stored before its type is hidden as a whole unless it fits; another type's is shown; so is any after the deletion
// of the type only in as far as before.
func TestWhatFitsNoVersionIsHidden(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	old, other := submit(f, "secret", `["`+canary+`"]`), submit(f, "free", `"`+canary+`"`)
	calltest.One[hop.TypeVersion](f, hop.PutType.Path, withPayload(f), hop.PutTypeRequest{Name: "secret", Force: true, Value: api.JobTypeRequest{
		PayloadSchema: json.RawMessage(`{"type": "object", "properties": {"card": {"x-sensitive": true}}}`),
	}})
	get := func(id string) string {
		return string(calltest.One[api.Job](f, hop.GetJob.Path, viewer(f), hop.ID{ID: id}).Payload)
	}
	if got := get(old); got != `"•••"` {
		t.Error(got)
	}
	if got := get(other); got != `"`+canary+`"` {
		t.Error(got)
	}
	fits := submit(f, "secret", `{"card": 1, "a": 2}`)
	calltest.One[hop.TypesChanged](f, hop.DeleteType.Path, withPayload(f), hop.Name{Name: "secret"})
	if got := get(fits); got != `{"a":2,"card":"•••"}` {
		t.Error("after the deletion:", got)
	}
}

// The type of a sensitive job is changed and deleted by those who see it.
func TestATypeIsChangedByThoseWhoSeeIt(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	putType(f, "secret", `{"payload_schema": {"x-sensitive": true}}`)
	if p := calltest.Refusal(f, hop.PutType.Path, viewer(f), hop.PutTypeRequest{Name: "secret"}); p.Code != problem.Forbidden || !strings.Contains(p.Detail, "payload") {
		t.Error(p)
	}
	if p := calltest.Refusal(f, hop.DeleteType.Path, viewer(f), hop.Name{Name: "secret"}); p.Code != problem.Forbidden {
		t.Error(p)
	}
}

// If-Match is of the job as its reader sees it.
func TestAChangeIsConditionalOnWhatIsSeen(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	putType(f, "secret", `{"payload_schema": {"x-sensitive": true}}`)
	id := calltest.Decode[api.SubmitResponse](f, calltest.One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, calltest.Job(func(s *api.SubmitRequest) {
		s.Type, s.Payload, s.RunAt = "secret", json.RawMessage(`"`+canary+`"`), new(api.At(time.Now().Add(time.Hour)))
	}))).ID
	seen := calltest.One[json.RawMessage](f, hop.GetJob.Path, viewer(f), hop.ID{ID: id})
	changed := asks(f, hop.PatchJob.Path, viewer(f), hop.PatchJobRequest{ID: id, IfMatch: []string{hop.ETag(seen)}, Patch: api.JobPatch{Priority: new(9)}})
	if !strings.Contains(changed, `"priority":9`) || strings.Contains(changed, canary) {
		t.Error(changed)
	}
}

// A rerun with another payload is checked against the type, and does not take what was hidden for a value.
func TestARerunIsCheckedAgainstItsType(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	dead := secretive(f)
	for payload, want := range map[string]string{`{"card": "•••"}`: "x-sensitive", `[]`: "type"} {
		answer := asks(f, hop.RerunJob.Path, viewer(f), hop.RerunJobRequest{
			JobID: dead, ID: uuid.Must(uuid.NewV7()).String(), Job: api.RerunRequest{SubmitRequest: api.SubmitRequest{Payload: json.RawMessage(payload)}},
		})
		if !strings.Contains(answer, "schema_mismatch") || !strings.Contains(answer, want) {
			t.Errorf("%s: %s", payload, answer)
		}
	}
	answer := asks(f, hop.RerunJob.Path, viewer(f), hop.RerunJobRequest{JobID: dead, ID: uuid.Must(uuid.NewV7()).String()})
	if !strings.Contains(answer, `"state":"queued"`) {
		t.Error(answer)
	}
	if again := f.Claim(); string(again.Payload) != fmt.Sprintf(`{"card":%q,"open":"shown"}`, canary) && !strings.Contains(string(again.Payload), canary) {
		t.Errorf("the new job has another payload: %s", again.Payload)
	}
}

// A rerun under another type, and a replacement with one, would show what the first type hides.
func TestAnotherTypeShowsNothing(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	dead := secretive(f)
	rerun := func(p hop.Principal, change func(*api.SubmitRequest)) string {
		var job api.SubmitRequest
		change(&job)
		return asks(f, hop.RerunJob.Path, p, hop.RerunJobRequest{JobID: dead, ID: uuid.Must(uuid.NewV7()).String(), Job: api.RerunRequest{SubmitRequest: job}})
	}
	if got := rerun(viewer(f), func(r *api.SubmitRequest) { r.Type = "free" }); !strings.Contains(got, `"forbidden"`) {
		t.Error(got)
	}
	for name, got := range map[string]string{
		"with the scope":  rerun(withPayload(f), func(r *api.SubmitRequest) { r.Type = "free" }),
		"the same type":   rerun(viewer(f), func(r *api.SubmitRequest) { r.Type = "secret" }),
		"another payload": rerun(viewer(f), func(r *api.SubmitRequest) { r.Type, r.Payload = "free", json.RawMessage(`1`) }),
	} {
		if !strings.Contains(got, `"state":"queued"`) {
			t.Errorf("%s: %s", name, got)
		}
	}
	deduped := func(p hop.Principal, jobType string) string {
		return asks(f, hop.SubmitJobs.Path, p, calltest.Job(func(s *api.SubmitRequest) {
			s.Type, s.Payload, s.DelayMS = jobType, json.RawMessage(`{}`), new(time.Hour.Milliseconds())
			s.Dedupe = &api.Dedupe{Key: "d", OnLive: api.OnLiveReplace}
		}))
	}
	deduped(f.Tenant, "secret")
	if got := deduped(viewer(f), "free"); !strings.Contains(got, "dedupe_conflict") {
		t.Error(got)
	}
	if got := deduped(viewer(f), "secret"); !strings.Contains(got, `"replaced":true`) {
		t.Error(got)
	}
}

// Whether waiting jobs fit a schema says what is in them: who does not see that gets no answer to it.
func TestASchemaIsNoOracle(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	putType(f, "secret", `{"payload_schema": {"properties": {"card": {"x-sensitive": true}}}}`)
	submit(f, "secret", `{"card": "`+canary+`"}`)
	for _, pattern := range []string{"^c4", "^c5"} {
		schema := `{"properties": {"card": {"x-sensitive": true, "pattern": "` + pattern + `"}}}`
		p := calltest.Refusal(f, hop.PutType.Path, viewer(f), hop.PutTypeRequest{Name: "secret", Value: api.JobTypeRequest{PayloadSchema: json.RawMessage(schema)}})
		if p.Code != problem.Forbidden {
			t.Errorf("%s: %+v", pattern, p)
		}
	}
}

// A watcher that does not see the progress's message waits for the next change all the same: its version of the job is not the
// newest one's, and not another one either.
func TestAMaskedVersionIsWaitedFor(t *testing.T) {
	t.Parallel()
	f := calltest.New(t)
	putType(f, "secret", `{"payload_schema": {"x-sensitive": true}}`)
	id := submit(f, "secret", `1`)
	lease := f.Claim()
	calltest.One[api.HeartbeatResponse](f, hop.Heartbeat.Path, f.Tenant, hop.WorkerHeartbeat{WorkerID: "w1", Leases: []api.Lease{{
		JobID: id, LeaseToken: lease.LeaseToken, Progress: &api.Progress{Percent: new(10.0), Message: new(canary)},
	}}})
	seen := calltest.One[api.Job](f, hop.GetJob.Path, viewer(f), hop.ID{ID: id})
	if seen.Progress == nil || *seen.Progress.Message != "•••" {
		t.Fatalf("%+v", seen.Progress)
	}
	for version, waits := range map[string]bool{seen.Version(): true, "another": false} {
		const wait = 300 * time.Millisecond
		asked := time.Now()
		got := asks(f, hop.WaitForJob.Path, viewer(f), hop.WaitForJobRequest{ID: id, Version: version, WaitMS: wait.Milliseconds()})
		if waited := time.Since(asked) >= wait; waits && !waited || !strings.Contains(got, `"state":"running"`) {
			t.Errorf("version %q: waited %v: %s", version, waited, got)
		}
	}
}
