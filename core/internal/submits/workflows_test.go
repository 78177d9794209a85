package submits_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
)

// flow is a workflow that a test makes of one request after another.
type flow struct {
	*fixture
	id   uuid.UUID
	jobs map[string]uuid.UUID // by ref
}

func (f *fixture) newFlow() *flow {
	return &flow{f, uuid.Must(uuid.NewV7()), map[string]uuid.UUID{}}
}

// add submits jobs with the refs from…to-1, and what each comes after.
func (f *flow) add(from, to int, request func(i int) api.SubmitRequest, after func(i int) []api.WorkflowDependency) {
	f.Helper()
	for from < to {
		end := min(from+api.MaxBatchJobs, to)
		call := submits.Call{Tenant: f.Tenant, Batch: true, Atomic: true}
		call.Workflow = &workflow.New{ID: f.id, Name: "large", Metadata: []byte("{}"), Add: len(f.jobs) > 0}
		for ; from < end; from++ {
			call.IDs, call.Jobs = append(call.IDs, uuid.Must(uuid.NewV7())), append(call.Jobs, request(from))
			call.Workflow.Refs, call.Refs = append(call.Workflow.Refs, ref(from)), append(call.Refs, after(from))
			f.jobs[ref(from)] = call.IDs[len(call.IDs)-1]
		}
		f.Accepted(f.D.Submit(f.Context(), []submits.Call{call})...)
	}
}

func ref(i int) string { return fmt.Sprint("r", i) }

func afterNone(int) []api.WorkflowDependency { return nil }

// followUps works off what there is.
func (f *flow) followUps() {
	f.Helper()
	for more, done := true, 0; more || done > 0; {
		var err error
		if done, more, err = f.D.FollowUp(f.Context(), f.Tenant); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *flow) end(found []claim.Job, kind string) {
	f.Helper()
	endings := make([]jobs.Ending, len(found))
	for i := range found {
		endings[i] = jobs.Ending{Lease: found[i].Lease(), Kind: kind}
		if kind == api.KindFail {
			endings[i].Permanent, endings[i].Error = true, &api.JobError{Type: "e"}
		}
	}
	for _, ended := range f.D.End(f.Context(), endings) {
		if ended.Err != nil {
			f.Fatal(ended.Err)
		}
	}
}

// claimAll claims and ends all that is queued, and gives how many jobs that were.
func (f *flow) claimAll(kind string) (n int) {
	f.Helper()
	for {
		jobs := f.Claim(f.ClaimCall())
		if len(jobs) == 0 {
			return n
		}
		n += len(jobs)
		f.end(jobs, kind)
		f.followUps()
	}
}

func (f *flow) wants(state string, want api.WorkflowCounts) {
	f.Helper()
	got, err := f.Store.Workflows.Workflow(f.Context(), f.Tenant, "", f.id)
	if err != nil || got.State != state || got.Counts != want {
		f.Fatalf("want %s %+v, have %s %+v, %v", state, want, got.State, got.Counts, err)
	}
	if lines, err := f.Store.Dependencies.VerifyDependencies(f.Context()); err != nil || len(lines) > 0 {
		f.Error(lines, err)
	}
}

// largeWorkflow is how many jobs a large workflow has: as many as there may be with FORGEQUEUE_FAULTS=long,
// which takes a minute of a processor.
func largeWorkflow() int {
	if os.Getenv("FORGEQUEUE_FAULTS") == "long" {
		return api.MaxWorkflowJobs
	}
	return 3 * api.MaxBatchJobs
}

// A large workflow is cancelled: layers of 1,000 jobs, of which some run, some are
// scheduled, and all others wait. Those after others would run if these were cancelled first.
func TestALargeWorkflowIsCancelled(t *testing.T) {
	t.Parallel()
	const running, scheduled, layer = 150, 150, api.MaxBatchJobs
	size := largeWorkflow()
	f := newFixture(t).newFlow()
	f.add(0, size, func(i int) api.SubmitRequest {
		request := enginetest.Plain()
		if i < scheduled {
			request.DelayMS = new(time.Hour.Milliseconds())
		}
		return request
	}, func(i int) []api.WorkflowDependency {
		if i < layer {
			return nil
		}
		return []api.WorkflowDependency{{Ref: ref(i - layer), OnFailed: []string{api.OnFailedRun, api.OnFailedCancel, api.OnFailedHold}[i%3]}}
	})
	call := f.ClaimCall()
	call.Max = running
	held := f.Claim(call)
	begun := time.Now()
	got, err := f.D.CancelWorkflow(t.Context(), f.Tenant, "", f.id)
	t.Logf("cancel of %d jobs: %v", size, time.Since(begun).Round(time.Millisecond))
	if want := (api.WorkflowCounts{Running: running, Cancelled: size - running}); err != nil || got.Counts != want || got.State != api.WorkflowRunning {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := f.D.CancelWorkflow(t.Context(), f.Tenant, "", f.id); err != nil {
		t.Errorf("again: %v", err)
	}
	f.followUps()
	if jobs := f.Claim(f.ClaimCall()); len(jobs) > 0 {
		t.Errorf("%d jobs of a cancelled workflow run", len(jobs))
	}
	f.end(held[:running/2], api.KindRelease)
	f.end(held[running/2:], api.KindComplete) // the cancel came too late
	f.followUps()
	f.wants(api.WorkflowCancelled, api.WorkflowCounts{Completed: running - running/2, Cancelled: size - (running - running/2)})
	late := make([]uuid.UUID, 0, len(held))
	for _, one := range held[running/2:] {
		late = append(late, one.ID)
	}
	if n := f.Count(`SELECT count(*) FROM finished_jobs WHERE state = CASE WHEN id = ANY($1) THEN 'completed' ELSE 'cancelled' END AND id = ANY($2)`,
		late, slices.Collect(maps.Values(f.jobs))); n != size {
		t.Errorf("%d jobs have ended as they should", n)
	}
}

// A job that is added while its workflow is cancelled is cancelled too.
func TestAJobIsAddedWhileItsWorkflowIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t).newFlow()
	f.add(0, 3, func(int) api.SubmitRequest { return enginetest.Plain() }, afterNone)
	holder := celltest.Connect(t, f.URL)
	if _, err := holder.Exec(t.Context(), `BEGIN; LOCK TABLE finished_jobs IN EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	cancelled := make(chan error, 1)
	go func() {
		_, err := f.D.CancelWorkflow(t.Context(), f.Tenant, "", f.id)
		cancelled <- err
	}()
	f.Blocked(1)
	f.add(3, 5, func(int) api.SubmitRequest { return enginetest.Plain() }, func(i int) []api.WorkflowDependency {
		return []api.WorkflowDependency{{Ref: ref(3)}}[:i-3]
	})
	if err := holder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-cancelled; err != nil {
		t.Fatal(err)
	}
	f.followUps()
	f.wants(api.WorkflowCancelled, api.WorkflowCounts{Cancelled: 5})
}

// Half of a large workflow has died, and holds the other half: it is redriven, and goes on to its end.
func TestALargeWorkflowIsRedriven(t *testing.T) {
	t.Parallel()
	half := largeWorkflow() / 2
	f := newFixture(t).newFlow()
	f.add(0, half, func(int) api.SubmitRequest { return enginetest.Plain() }, afterNone)
	f.add(half, 2*half, func(int) api.SubmitRequest { return enginetest.Plain() }, func(i int) []api.WorkflowDependency {
		return []api.WorkflowDependency{{Ref: ref(i - half), OnFailed: api.OnFailedHold}}
	})
	if n := f.claimAll(api.KindFail); n != half {
		t.Fatalf("%d jobs have failed", n)
	}
	f.wants(api.WorkflowRunning, api.WorkflowCounts{DeadLetter: half, Blocked: half})
	begun := time.Now()
	redriven, err := f.D.RedriveWorkflow(t.Context(), f.Tenant, "", f.id)
	t.Logf("redrive of %d jobs: %v", half, time.Since(begun).Round(time.Millisecond))
	if err != nil || len(redriven) != half {
		t.Fatalf("%d, %v", len(redriven), err)
	}
	for _, one := range redriven {
		if one.Err != nil || one.Job.State != api.StateQueued || one.Job.Redrives != 1 || one.Job.Attempt != 0 {
			t.Fatalf("%+v", one)
		}
	}
	f.wants(api.WorkflowRunning, api.WorkflowCounts{Queued: half, Blocked: half})
	if again, err := f.D.RedriveWorkflow(t.Context(), f.Tenant, "", f.id); err != nil || len(again) != 0 {
		t.Errorf("again: %d, %v", len(again), err)
	}
	if n := f.claimAll(api.KindComplete); n != 2*half {
		t.Errorf("%d jobs have run", n)
	}
	f.wants(api.WorkflowCompleted, api.WorkflowCounts{Completed: 2 * half})
	if n := f.Count(`SELECT count(*) FROM finished_jobs WHERE state = 'completed' AND redrives = 1`); n != half {
		t.Errorf("%d jobs were redriven once", n)
	}
}

// A requested cancel of a running job wakes what waits for the job: its workflow, or the next tick of its schedule.
func TestARequestedCancelIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	follow := func(id uuid.UUID, cancel func()) {
		t.Helper()
		running := f.Get(id)
		if running.State != api.StateRunning {
			t.Fatalf("%+v", running.JobSummary)
		}
		found := f.WaitVersion(f.D, id, running.Version())
		f.Watched(id)
		cancel()
		if got := <-found; !got.CancelRequested {
			t.Errorf("the requested cancel was not told: %+v", got.JobSummary)
		}
	}
	flow := f.newFlow()
	flow.add(0, 1, func(int) api.SubmitRequest { return enginetest.Plain() }, afterNone)
	f.Claim(f.ClaimCall())
	follow(flow.jobs[ref(0)], func() {
		if _, err := f.D.CancelWorkflow(t.Context(), f.Tenant, "", flow.id); err != nil {
			t.Fatal(err)
		}
	})
	hour := time.Hour.Milliseconds()
	request := api.ScheduleRequest{EveryMS: &hour, Overlap: api.OverlapCancel, Job: api.ScheduleJob{Type: "test", Queue: "ticks"}}
	if _, err := f.D.PutSchedule(t.Context(), f.Tenant, "", "s", request); err != nil {
		t.Fatal(err)
	}
	tick := func() {
		t.Helper()
		f.Exec(`UPDATE schedules SET next_at = now(), due_at = now()`)
		if run, err := f.D.RunSchedules(t.Context(), 10); err != nil || run.Worked != 1 {
			t.Fatalf("%+v %v", run, err)
		}
	}
	tick()
	taken := f.Claim(f.ClaimCall("ticks"))
	if len(taken) != 1 {
		t.Fatalf("%d jobs of the first tick", len(taken))
	}
	follow(taken[0].ID, tick)
}
