package submits_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/amend"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// patch changes a job, and tells claims of it.
func (f *fixture) patch(id uuid.UUID, patch api.JobPatch) (api.Job, error) {
	f.Helper()
	job, made, err := f.D.Patch(f.Context(), f.Tenant, "", id, &patch, nil, func(string) error { return nil })
	f.D.Publish(f.Context(), publish.Changes{Amended: made})
	return job, err
}

func (f *fixture) mustPatch(id uuid.UUID, patch api.JobPatch) api.Job {
	f.Helper()
	job, err := f.patch(id, patch)
	if err != nil {
		f.Fatal(err)
	}
	return job
}

// claimed are the ids of the next jobs of a queue, in the order in which they are claimed.
func (f *fixture) claimed(queue string, n int) (ids []uuid.UUID) {
	f.Helper()
	for range n {
		for _, job := range f.Claim(f.ClaimCall(queue)) {
			ids = append(ids, job.ID)
		}
	}
	return ids
}

func at(when time.Time) *api.Time { return &api.Time{Time: when} }

// What is given changes, the rest stays, and so does the job's place among others of its priority.
func TestPatchAWaitingJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.Submit(plainJobs(4)...)
	before := f.Get(ids[1])
	deadline := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	job := f.mustPatch(ids[1], api.JobPatch{
		Payload: json.RawMessage(`{"a": [1,  2]}`), Metadata: map[string]string{"order": "7"}, Deadline: at(deadline), MaxAttempts: new(9),
	})
	want := before
	want.Payload, want.Metadata, want.Deadline, want.MaxAttempts = json.RawMessage(`{"a": [1,  2]}`), map[string]string{"order": "7"}, at(deadline), 9
	if got := fmt.Sprintf("%+v", shown(job)); got != fmt.Sprintf("%+v", shown(want)) || fmt.Sprint(f.Get(ids[1])) != fmt.Sprint(job) {
		t.Errorf("got  %s\nwant %+v", got, shown(want))
	}
	if size := f.Count(`SELECT size FROM jobs WHERE id = $1`, ids[1]); size != len(`{"a": [1,  2]}`)+len(`{"order":"7"}`)+len(`{}`) {
		t.Errorf("size %d", size)
	}
	f.mustPatch(ids[3], api.JobPatch{Priority: new(7)})
	f.mustPatch(ids[0], api.JobPatch{Priority: new(6)})
	f.mustPatch(ids[0], api.JobPatch{Priority: new(5)})
	if got := f.claimed(api.DefaultQueue, 4); fmt.Sprint(got) != fmt.Sprint([]uuid.UUID{ids[3], ids[0], ids[1], ids[2]}) {
		t.Errorf("claimed %v of %v", got, ids)
	}
}

func plainJobs(n int) []api.SubmitRequest {
	jobs := make([]api.SubmitRequest, n)
	for i := range jobs {
		jobs[i] = api.SubmitRequest{Type: "test"}
	}
	return jobs
}

func shown(job api.Job) string {
	text, _ := json.Marshal(job)
	return string(text)
}

// A job is put off, and taken back; one that waits for its time starts at once.
func TestPatchWhenAJobStarts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(api.SubmitRequest{Type: "test"})[0]
	later := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	if job := f.mustPatch(id, api.JobPatch{RunAt: at(later)}); job.State != api.StateScheduled || !job.RunAt.Equal(later) {
		t.Errorf("%+v", job)
	}
	if got := f.claimed(api.DefaultQueue, 1); len(got) != 0 {
		t.Errorf("claimed %v", got)
	}
	if job := f.mustPatch(id, api.JobPatch{RunAt: at(time.Now().Add(-time.Hour))}); job.State != api.StateQueued || time.Since(job.RunAt.Time).Abs() > time.Minute {
		t.Errorf("%+v", job)
	}
	if got := f.claimed(api.DefaultQueue, 1); len(got) != 1 {
		t.Errorf("claimed %v", got)
	}
	blocked := f.Submit(api.SubmitRequest{Type: "test", After: []api.Dependency{{JobID: id.String()}}})[0]
	if job := f.mustPatch(blocked, api.JobPatch{RunAt: at(later), Priority: new(9)}); job.State != api.StateBlocked || !job.RunAt.Equal(later) || job.Priority != 9 {
		t.Errorf("%+v", job)
	}
}

// Only a job that waits can be changed, by those who may see it, and with values that it can have.
func TestPatchesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(api.SubmitRequest{Type: "test", User: new("ada")})[0]
	refused := func(user string, patch api.JobPatch) error {
		_, _, err := f.D.Patch(t.Context(), f.Tenant, user, id, &patch, nil, func(string) error { return nil })
		return err
	}
	if err := refused("bob", api.JobPatch{Priority: new(1)}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another user: %v", err)
	}
	if err := refused("ada", api.JobPatch{Deadline: at(time.Now().Add(-time.Hour))}); !isInvalid(err, "deadline") {
		t.Errorf("a deadline in the past: %v", err)
	}
	other := func(*api.Job) (bool, error) { return false, nil }
	if _, _, err := f.D.Patch(t.Context(), f.Tenant, "", id, &api.JobPatch{}, other, nil); !errors.Is(err, amend.ErrPrecondition) {
		t.Errorf("another version: %v", err)
	}
	wrong := errors.New("wrong")
	if _, _, err := f.D.Patch(t.Context(), f.Tenant, "", id, &api.JobPatch{Payload: []byte(`1`)}, nil, func(jobType string) error {
		if jobType != "test" {
			t.Errorf("type %s", jobType)
		}
		return wrong
	}); !errors.Is(err, wrong) {
		t.Errorf("a payload that does not fit: %v", err)
	}
	running := f.Claim(f.ClaimCall(api.DefaultQueue))[0]
	if err := refused("", api.JobPatch{Priority: new(1)}); !errors.Is(err, amend.ErrStarted) {
		t.Errorf("running: %v", err)
	}
	ending := enginetest.Endings([]claim.Job{running})[0]
	ending.Kind, ending.Error = api.KindFail, &api.JobError{Type: "broken"}
	if ended := f.Store.Jobs.End(t.Context(), []jobs.Ending{ending})[0]; ended.Err != nil {
		t.Fatal(ended.Err)
	}
	if err := refused("", api.JobPatch{MaxAttempts: new(1)}); !isInvalid(err, "max_attempts") {
		t.Errorf("as many attempts as it has used: %v", err)
	}
	if job, err := f.patch(id, api.JobPatch{MaxAttempts: new(2), RunAt: at(time.Now())}); err != nil || job.State != api.StateQueued || job.Attempt != 1 {
		t.Errorf("a retry at once: %+v, %v", job, err)
	}
	if _, _, err := f.D.Cancel(t.Context(), f.Tenant, "", id); err != nil {
		t.Fatal(err)
	}
	if err := refused("", api.JobPatch{Priority: new(1)}); !errors.Is(err, amend.ErrStarted) {
		t.Errorf("ended: %v", err)
	}
}

func isInvalid(err error, field string) bool {
	p, ok := problem.From(err)
	return ok && p.Code == problem.InvalidRequest && len(p.Errors) == 1 && p.Errors[0].Field == field
}

// A job moves to another queue under its cap, and leaves the count of the old one; tags change its lane.
func TestPatchTheQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, name := range []string{"from", "to"} {
		if _, err := f.D.PutQueue(t.Context(), f.Tenant, name, api.QueueRequest{MaxActive: new(int64(2))}); err != nil {
			t.Fatal(err)
		}
	}
	ids := f.Submit(api.SubmitRequest{Type: "test", Queue: "from"}, api.SubmitRequest{Type: "test", Queue: "from"}, api.SubmitRequest{Type: "test", Queue: "to"})
	if job := f.mustPatch(ids[0], api.JobPatch{Queue: new("to"), Tags: []string{"gpu"}}); job.Queue != "to" || fmt.Sprint(job.Tags) != "[gpu]" {
		t.Errorf("%+v", job)
	}
	if _, err := f.patch(ids[1], api.JobPatch{Queue: new("to")}); !isCode(err, problem.QueueFull) {
		t.Errorf("a full queue: %v", err)
	}
	f.Accepted(f.D.Submit(t.Context(), []submits.Call{f.Call(api.SubmitRequest{Type: "test", Queue: "from"})})...)
	if answer := f.D.Submit(t.Context(), []submits.Call{f.Call(api.SubmitRequest{Type: "test", Queue: "from"})})[0]; answer.Problem == nil || answer.Problem.Code != problem.QueueFull {
		t.Errorf("the old queue has room for one: %+v", answer)
	}
	if drifts, err := f.Store.Counts.Verify(t.Context()); err != nil || len(drifts) > 0 {
		t.Errorf("%v %v", drifts, err)
	}
	if got := f.claimed("to", 2); fmt.Sprint(got) != fmt.Sprint(ids[2:]) {
		t.Errorf("without the tag: %v", got)
	}
	call := f.ClaimCall("to")
	call.Tags = &[]string{"gpu"}
	if got := f.Claim(call); len(got) != 1 || got[0].ID != ids[0] {
		t.Errorf("with it: %v", got)
	}
}

func isCode(err error, code problem.Code) bool {
	p, ok := problem.From(err)
	return ok && p.Code == code
}

// A job that leaves from behind the gate of its key lets the next one pass, and has the limits of its new queue.
func TestPatchAJobOfALimitedKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, keys := range map[string]*api.KeySettingsRequest{"from": {MaxRunning: new(int64(1))}, "to": {Order: new(api.KeyOrderFIFO)}} {
		if _, err := f.D.PutQueue(t.Context(), f.Tenant, name, api.QueueRequest{Keys: keys}); err != nil {
			t.Fatal(err)
		}
	}
	keyed := func(queue string) api.SubmitRequest {
		return api.SubmitRequest{Type: "test", Queue: queue, Key: new("k")}
	}
	ids := f.Submit(keyed("from"), keyed("from"), keyed("from"), keyed("to"))
	pass := func() {
		t.Helper()
		if err := f.D.PassGates(t.Context(), f.Tenant); err != nil {
			t.Fatal(err)
		}
	}
	f.mustPatch(ids[0], api.JobPatch{Queue: new("to")})
	f.mustPatch(ids[2], api.JobPatch{Priority: new(9)})
	pass()
	if got := f.claimed("from", 2); fmt.Sprint(got) != fmt.Sprint(ids[1:2]) && fmt.Sprint(got) != fmt.Sprint(ids[2:3]) {
		t.Errorf("one of the key runs: %v", got)
	}
	if got := f.claimed("to", 2); len(got) != 1 || got[0] != ids[3] && got[0] != ids[0] {
		t.Errorf("one at a time: %v", got)
	}
	// one that is put off holds nobody up
	more := f.Submit(api.SubmitRequest{Type: "test", Queue: "to", Key: new("l")}, api.SubmitRequest{Type: "test", Queue: "to", Key: new("l")})
	f.mustPatch(more[0], api.JobPatch{RunAt: at(time.Now().Add(time.Hour))})
	pass()
	if got := f.claimed("to", 2); fmt.Sprint(got) != fmt.Sprint(more[1:]) {
		t.Errorf("the second of the key: %v", got)
	}
}

// Of a change and a claim, one comes first: what runs is what was accepted.
func TestPatchAgainstClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	races, changed, started := celltest.Rounds(300, 10_000), atomic.Int64{}, atomic.Int64{}
	const atOnce = 50
	for round := 0; round < races; round += atOnce {
		ids := f.Submit(plainJobs(atOnce)...)
		accepted, ran := map[uuid.UUID]bool{}, map[uuid.UUID]string{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for _, some := range [][]uuid.UUID{ids[:atOnce/2], ids[atOnce/2:]} {
			all.Go(func() {
				for _, id := range some {
					_, err := f.patch(id, api.JobPatch{Payload: []byte(`"new"`), Priority: new(4)})
					if err != nil && !errors.Is(err, amend.ErrStarted) {
						t.Error(err)
					}
					mu.Lock()
					accepted[id] = err == nil
					mu.Unlock()
				}
			})
		}
		for range 2 {
			all.Go(func() {
				for {
					mu.Lock()
					done := len(ran) == atOnce
					mu.Unlock()
					if done || t.Failed() {
						return
					}
					found, err := f.D.Claim(t.Context(), f.ClaimCall(api.DefaultQueue))
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for i := range found {
						if _, twice := ran[found[i].ID]; twice {
							t.Errorf("%s was claimed twice", found[i].ID)
						}
						ran[found[i].ID] = string(found[i].Payload)
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for _, id := range ids {
			want := map[bool]string{true: `"new"`, false: `null`}[accepted[id]]
			if ran[id] != want {
				t.Fatalf("%s ran with %s, accepted %v", id, ran[id], accepted[id])
			}
			if accepted[id] {
				changed.Add(1)
			} else {
				started.Add(1)
			}
		}
		f.Exec(`DELETE FROM jobs`)
	}
	t.Logf("%d changed first, %d claimed first", changed.Load(), started.Load())
	if changed.Load() == 0 || started.Load() == 0 {
		t.Error("there was no race")
	}
}
