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

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func deduped(key, onLive, payload string, change ...func(*api.SubmitRequest)) api.SubmitRequest {
	job := api.SubmitRequest{Type: "test", Payload: json.RawMessage(payload), Dedupe: &api.Dedupe{Key: key, OnLive: onLive}}
	for _, c := range change {
		c(&job)
	}
	return job
}

// one submits a job, and gives what became of it.
func (f *fixture) one(job api.SubmitRequest) submit.JobResult {
	f.Helper()
	return f.oneOf(f.Call(job))
}

func (f *fixture) oneOf(call submits.Call) submit.JobResult {
	f.Helper()
	answer := f.D.Submit(f.Context(), []submits.Call{call})[0]
	if answer.Err != nil || len(answer.Jobs) != 1 {
		f.Fatalf("%+v", answer)
	}
	return answer.Jobs[0]
}

// complete ends jobs, and has those start that come after them.
func (f *fixture) complete(found ...claim.Job) {
	f.Helper()
	for _, ended := range f.Store.Jobs.End(f.Context(), enginetest.Endings(found)) {
		if ended.Err != nil {
			f.Error(ended.Err)
		}
	}
	if _, _, err := f.D.FollowUp(f.Context(), f.Tenant); err != nil {
		f.Error(err)
	}
}

func (f *fixture) live() string {
	f.Helper()
	rows, err := f.Direct.Query(f.Context(), `SELECT state || ' ' || payload FROM jobs ORDER BY created_at, id`)
	if err != nil {
		f.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			f.Fatal(err)
		}
		all = append(all, one)
	}
	return fmt.Sprint(all)
}

// What becomes of a second submit, while the first job waits and while it runs.
func TestSubmitsOfALiveDedupeKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.one(deduped("k", api.OnLiveReplace, `1`))
	if first.Deduplicated || first.Replaced {
		t.Fatalf("%+v", first)
	}
	if got := f.one(deduped("k", api.OnLiveKeep, `2`)); !got.Deduplicated || got.Replaced || got.Row.ID != first.Row.ID {
		t.Errorf("keep: %+v", got)
	}
	if got := f.one(deduped("k", api.OnLiveFail, `3`)); got.Refused == nil || got.Refused.Code != problem.DedupeConflict {
		t.Errorf("fail: %+v", got)
	}
	if got := f.live(); got != "[queued 1]" {
		t.Error(got)
	}
	got := f.one(deduped("k", api.OnLiveReplace, `4`, func(job *api.SubmitRequest) {
		job.Priority, job.MaxAttempts, job.Metadata = new(8), new(7), map[string]string{"a": "b"}
	}))
	if !got.Replaced || got.Row.ID != first.Row.ID || got.Row.Priority != 8 || got.Row.MaxAttempts != 7 || string(got.Row.Metadata) != `{"a":"b"}` {
		t.Errorf("replace: %+v", got.Row)
	}
	if got := f.one(deduped("k", api.OnLiveReplace, `5`, func(job *api.SubmitRequest) { job.Queue = "elsewhere" })); got.Refused == nil || got.Refused.Code != problem.DedupeConflict {
		t.Errorf("in another queue: %+v", got)
	}
	if got := f.one(deduped("k", api.OnLiveReplace, `5`, func(job *api.SubmitRequest) { job.Type = "other" })); got.Refused == nil || got.Refused.Code != problem.DedupeConflict {
		t.Errorf("of another type: %+v", got)
	}
	running := f.Claim(f.ClaimCall(api.DefaultQueue))
	if len(running) != 1 || string(running[0].Payload) != `4` {
		t.Fatalf("%+v", running)
	}
	follower := f.one(deduped("k", api.OnLiveReplace, `6`))
	if follower.Replaced || follower.Deduplicated || follower.Row.State != api.StateBlocked || len(follower.Row.After) != 1 {
		t.Errorf("the follower: %+v", follower.Row)
	}
	for _, mode := range []string{api.OnLiveReplace, api.OnLiveKeep} {
		if got := f.one(deduped("k", mode, `7`)); got.Row.ID != follower.Row.ID || got.Replaced != (mode == api.OnLiveReplace) {
			t.Errorf("%s: %+v", mode, got)
		}
	}
	if got := f.live(); got != "[running 4 blocked 7]" {
		t.Error(got)
	}
	// without its follower, the job that runs has the key
	if _, _, err := f.D.Cancel(t.Context(), f.Tenant, "", follower.Row.ID); err != nil {
		t.Fatal(err)
	}
	if got := f.one(deduped("k", api.OnLiveKeep, `8`)); got.Row.ID != running[0].ID || !got.Deduplicated {
		t.Errorf("keep: %+v", got)
	}
	if got := f.one(deduped("k", api.OnLiveReplace, `9`)); got.Row.State != api.StateBlocked {
		t.Errorf("another follower: %+v", got.Row)
	}
	f.complete(running...)
	if got := f.live(); got != "[queued 9]" {
		t.Error(got)
	}
	last := f.Claim(f.ClaimCall(api.DefaultQueue))
	f.complete(last...)
	if got := f.one(deduped("k", api.OnLiveKeep, `10`)); got.Deduplicated {
		t.Errorf("when none is live: %+v", got)
	}
}

// A job that was tried is tried afresh with new content; one that waits for others, or for signals, does so with it.
func TestReplaceAJobThatWasTried(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.one(deduped("k", api.OnLiveReplace, `1`))
	running := f.Claim(f.ClaimCall(api.DefaultQueue))[0]
	ending := enginetest.Endings([]claim.Job{running})[0]
	ending.Kind, ending.Error, ending.RetryAfter = api.KindFail, &api.JobError{Type: "broken"}, new(time.Hour)
	if ended := f.Store.Jobs.End(t.Context(), []jobs.Ending{ending})[0]; ended.Err != nil {
		t.Fatal(ended.Err)
	}
	if got := f.one(deduped("k", api.OnLiveReplace, `2`, func(job *api.SubmitRequest) { job.MaxAttempts = new(1) })); got.Row.Attempt != 0 || got.Row.State != api.StateScheduled {
		t.Errorf("%+v", got.Row)
	}
	if got := f.one(deduped("k", api.OnLiveExtend, `3`, func(job *api.SubmitRequest) { job.DelayMS = new(int64(0)) })); got.Row.State != api.StateQueued {
		t.Errorf("%+v", got.Row)
	}
	parent := f.Submit(api.SubmitRequest{Type: "test", Queue: "parents"})[0]
	f.one(deduped("b", api.OnLiveReplace, `1`, func(job *api.SubmitRequest) { job.After = []api.Dependency{{JobID: parent.String()}} }))
	if got := f.one(deduped("b", api.OnLiveReplace, `2`)); !got.Replaced || got.Row.State != api.StateBlocked {
		t.Errorf("%+v", got.Row)
	}
}

// extend starts the delay again, up to a time after the first submit. An idempotent repeat does not.
func TestExtendIsBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	debounced := func(job *api.SubmitRequest) {
		job.DelayMS, job.Dedupe.MaxDelayMS = new(int64(60_000)), new(int64(90_000))
	}
	first := f.one(deduped("k", api.OnLiveExtend, `1`, debounced))
	f.Exec(`UPDATE jobs SET created_at = created_at - interval '20 s', run_at = run_at - interval '20 s'`)
	call := f.Call(deduped("k", api.OnLiveExtend, `2`, debounced))
	call.Idempotency, call.Render = celltest.Keyed("once", "body"), celltest.Render
	if got := f.oneOf(call); !got.Replaced || got.Row.RunAt.Sub(first.Row.RunAt).Abs() > 20*time.Second {
		t.Errorf("%+v", got.Row)
	}
	f.Exec(`UPDATE jobs SET created_at = created_at - interval '50 s', run_at = run_at - interval '50 s'`)
	if answer := f.D.Submit(t.Context(), []submits.Call{call})[0]; answer.Err != nil || !answer.Replayed {
		t.Errorf("%+v", answer)
	}
	if left := time.Until(f.Get(first.Row.ID).RunAt.Time); left > 11*time.Second || left < -20*time.Second {
		t.Errorf("a repeat extends: %v", left)
	}
	if got := f.one(deduped("k", api.OnLiveExtend, `3`, debounced)); !got.Row.RunAt.Equal(f.Get(first.Row.ID).CreatedAt.Add(90 * time.Second)) {
		t.Errorf("%+v", got.Row)
	}
}

// A job that is replaced has its place under the cap; a follower needs one of its own. A refused batch changes nothing.
func TestReplaceUnderACap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.D.PutQueue(t.Context(), f.Tenant, api.DefaultQueue, api.QueueRequest{MaxActive: new(int64(1))}); err != nil {
		t.Fatal(err)
	}
	f.one(deduped("k", api.OnLiveReplace, `1`))
	if got := f.one(deduped("k", api.OnLiveReplace, `2`)); !got.Replaced {
		t.Errorf("%+v", got)
	}
	call := f.Call(deduped("k", api.OnLiveReplace, `3`), api.SubmitRequest{Type: "test"})
	call.Batch, call.Atomic = true, true
	if answer := f.D.Submit(t.Context(), []submits.Call{call})[0]; answer.Problem == nil || f.live() != "[queued 2]" {
		t.Errorf("%+v: %s", answer, f.live())
	}
	f.Claim(f.ClaimCall(api.DefaultQueue))
	if got := f.one(deduped("k", api.OnLiveReplace, `4`)); got.Refused == nil || got.Refused.Code != problem.QueueFull {
		t.Errorf("%+v", got)
	}
	if f.Count(`SELECT count(*) FROM jobs WHERE superseded`) != 0 {
		t.Error("superseded by none")
	}
	if _, err := f.D.PutQueue(t.Context(), f.Tenant, api.DefaultQueue, api.QueueRequest{MaxActive: new(int64(2))}); err != nil {
		t.Fatal(err)
	}
	if got := f.one(deduped("k", api.OnLiveReplace, `5`)); got.Row == nil || got.Row.State != api.StateBlocked {
		t.Errorf("%+v", got)
	}
	if drifts, err := f.Store.Counts.Verify(t.Context()); err != nil || len(drifts) > 0 {
		t.Errorf("%v %v", drifts, err)
	}
}

// Many submits of few keys by two cores, while workers run: one job of a key runs at most, and one waits, and what was accepted last runs
// last.
func TestReplaceWhileWorkersRun(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.NewCore(f.Store)
	watching := celltest.Connect(t, f.URL)
	const keys = 10
	submitted := celltest.Rounds(300, 1000)
	ran := [keys]atomic.Value{}
	var stop atomic.Bool
	var workers, producers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			for !stop.Load() {
				found, err := f.D.Claim(t.Context(), f.ClaimCall(api.DefaultQueue))
				if err != nil {
					t.Error(err)
					return
				}
				for _, job := range found {
					var what struct{ Key, N int }
					if err := json.Unmarshal(job.Payload, &what); err != nil {
						t.Error(err)
					}
					ran[what.Key].Store(what.N)
				}
				f.complete(found...)
			}
		})
	}
	workers.Go(func() {
		for !stop.Load() {
			var n int
			if err := watching.QueryRow(t.Context(), `SELECT count(*) FROM (SELECT FROM jobs GROUP BY dedupe_key HAVING count(*) FILTER (WHERE state = 'running') > 1 OR count(*) FILTER (WHERE state <> 'running') > 1) AS wrong`).Scan(&n); err != nil || n > 0 {
				t.Errorf("%d keys with more than one that runs, or that waits (%v)", n, err)
				return
			}
		}
	})
	submitOne := func(i int) {
		core, key := f.D, i%keys
		if i/keys%2 == 0 {
			core = other
		}
		id := uuid.Must(uuid.NewV7())
		call := submits.Call{Tenant: f.Tenant, IDs: []uuid.UUID{id}, Jobs: []api.SubmitRequest{deduped(fmt.Sprint("k", key), api.OnLiveReplace, fmt.Sprintf(`{"key": %d, "n": %d}`, key, i))}}
		for {
			answer := core.Submit(t.Context(), []submits.Call{call})[0]
			if errors.Is(answer.Err, store.ErrOverloaded) || answer.Problem != nil && answer.Problem.Code == problem.Overloaded {
				continue
			}
			if answer.Err != nil || answer.Problem != nil {
				t.Errorf("%+v", answer)
			}
			return
		}
	}
	for range 8 {
		var next atomic.Int64
		producers.Go(func() {
			for range submitted / 8 {
				submitOne(int(next.Add(1)))
			}
		})
	}
	producers.Wait()
	for key := range keys {
		submitOne(1_000_000*keys + key)
	}
	for key := range keys {
		celltest.Eventually(t, fmt.Sprint("the last one of key ", key), func() bool { return ran[key].Load() == 1_000_000*keys+key })
	}
	celltest.Eventually(t, "no job is left", func() bool { return f.Count(`SELECT count(*) FROM jobs`) == 0 })
	stop.Store(true)
	workers.Wait()
	for key := range keys {
		if got := ran[key].Load(); got != 1_000_000*keys+key {
			t.Errorf("key %d ended with %v", key, got)
		}
	}
}

// A deadline that has passed refuses an atomic batch as a whole, with and without a cap.
func TestALateReplacementRefusesItsBatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, capped := range []bool{false, true} {
		if capped {
			if _, err := f.D.PutQueue(t.Context(), f.Tenant, api.DefaultQueue, api.QueueRequest{MaxActive: new(int64(9))}); err != nil {
				t.Fatal(err)
			}
		}
		f.one(deduped("a", api.OnLiveReplace, `1`))
		f.one(deduped("b", api.OnLiveReplace, `1`))
		before := f.live()
		late := deduped("a", api.OnLiveReplace, `2`)
		late.Deadline = at(time.Now().Add(-time.Hour))
		call := f.Call(late, deduped("b", api.OnLiveReplace, `2`), api.SubmitRequest{Type: "test"})
		call.Batch, call.Atomic = true, true
		if answer := f.D.Submit(t.Context(), []submits.Call{call})[0]; answer.Problem == nil || answer.Problem.Code != problem.InvalidRequest || f.live() != before {
			t.Errorf("capped %v: %+v: %s", capped, answer, f.live())
		}
		if got := f.oneOf(f.Call(late)); got.Refused == nil {
			t.Errorf("alone: %+v", got)
		}
	}
}

// The running job may also be one that the new one comes after.
func TestAFollowerOfItsParent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.one(deduped("k", api.OnLiveReplace, `1`))
	running := f.Claim(f.ClaimCall(api.DefaultQueue))
	got := f.one(deduped("k", api.OnLiveReplace, `2`, func(job *api.SubmitRequest) { job.After = []api.Dependency{{JobID: running[0].ID.String()}} }))
	if got.Row == nil || got.Row.State != api.StateBlocked || len(got.Row.After) != 1 {
		t.Errorf("%+v", got)
	}
	f.complete(running...)
	if got := f.live(); got != "[queued 2]" {
		t.Error(got)
	}
}

// The size of a job is that of what it has, however often it is replaced; a bound of nothing starts it at once.
func TestReplaceOften(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tagged := func(job *api.SubmitRequest) { job.Tags = []string{"one", "two"} }
	var sizes []int
	for range 3 {
		f.one(deduped("k", api.OnLiveReplace, `1`, tagged))
		sizes = append(sizes, f.Count(`SELECT size FROM jobs`))
	}
	if sizes[1] != sizes[2] {
		t.Errorf("sizes %v", sizes)
	}
	bounded := func(job *api.SubmitRequest) {
		job.DelayMS, job.Dedupe.MaxDelayMS = new(int64(60_000)), new(int64(0))
		tagged(job)
	}
	if got := f.one(deduped("k", api.OnLiveExtend, `2`, bounded)); got.Row.State != api.StateQueued || !got.Row.RunAt.Equal(got.Row.CreatedAt) {
		t.Errorf("%+v", got.Row)
	}
	call := f.ClaimCall(api.DefaultQueue)
	call.Tags = &[]string{"one", "two"}
	f.Claim(call)
	for i, late := range []func(*api.SubmitRequest){func(*api.SubmitRequest) {}, func(job *api.SubmitRequest) {
		job.DelayMS, job.RunAt = nil, at(time.Now().Add(time.Hour))
	}} {
		if got := f.one(deduped(fmt.Sprint("new ", i), api.OnLiveExtend, `1`, bounded, late)); got.Row.State != api.StateQueued || !got.Row.RunAt.Equal(got.Row.CreatedAt) {
			t.Errorf("a new one: %+v", got.Row)
		}
	}
	f.one(deduped("k", api.OnLiveExtend, `3`, bounded))
	if got := f.one(deduped("k", api.OnLiveExtend, `4`, bounded)); got.Row.State != api.StateBlocked || !got.Replaced || !got.Row.RunAt.Equal(got.Row.CreatedAt) {
		t.Errorf("the follower: %+v", got.Row)
	}
}

// A job that is changed while a claim looks for it is told of, though it keeps its place.
func TestAPatchTellsOfTheJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(plainJobs(1)...)[0]
	_, made, err := f.D.Patch(t.Context(), f.Tenant, "", id, &api.JobPatch{Payload: []byte(`1`)}, nil, func(string) error { return nil })
	if err != nil || len(made) != 1 || made[0].Ready.Lane == 0 || made[0].Ready.At.IsZero() {
		t.Errorf("%+v %v", made, err)
	}
}
