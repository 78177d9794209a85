package dispatch_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/watch"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Nothing polls in these tests: what is not told is not heard.

// watched waits until a client that waits for a change of a job has read it.
func (f *fixture) watched(id uuid.UUID) {
	f.Helper()
	celltest.Eventually(f, "a watch", func() bool { return slices.Contains(f.d.WatchedJobs(), id) })
	f.idle()
}

// A discard wakes the clients that wait for a redrive of the job.
func TestADiscardWakesWhoWatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.submit(plain())[0]
	lease := f.claim(f.claimCall())[0].Lease()
	if ended := f.d.End(t.Context(), []jobs.Ending{{Lease: lease, Kind: api.KindFail, Permanent: true}})[0]; ended.Err != nil {
		t.Fatal(ended.Err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := f.d.WaitJob(t.Context(), watch.Call{Tenant: f.tenant, ID: id, Wait: long, Seen: api.StateDeadLetter})
		answered <- err
	}()
	f.watched(id)
	if gone, err := f.d.Discard(t.Context(), f.tenant, "", []uuid.UUID{id}); err != nil || !gone[id] {
		t.Fatalf("%v %v", gone, err)
	}
	if err := <-answered; !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the discard was not told: %v", err)
	}
}

// A requested cancel of a running job wakes what waits for the job: its workflow, or the next tick of its schedule.
func TestARequestedCancelIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	follow := func(id uuid.UUID, cancel func()) {
		t.Helper()
		running := f.get(id)
		if running.State != api.StateRunning {
			t.Fatalf("%+v", running.JobSummary)
		}
		found := f.waitVersion(f.d, id, running.Version())
		f.watched(id)
		cancel()
		if got := <-found; !got.CancelRequested {
			t.Errorf("the requested cancel was not told: %+v", got.JobSummary)
		}
	}
	flow := f.newFlow()
	flow.add(0, 1, func(int) api.SubmitRequest { return plain() }, afterNone)
	f.claim(f.claimCall())
	follow(flow.jobs[ref(0)], func() {
		if _, err := f.d.CancelWorkflow(t.Context(), f.tenant, "", flow.id); err != nil {
			t.Fatal(err)
		}
	})
	hour := time.Hour.Milliseconds()
	request := api.ScheduleRequest{EveryMS: &hour, Overlap: api.OverlapCancel, Job: api.ScheduleJob{Type: "test", Queue: "ticks"}}
	if _, err := f.d.PutSchedule(t.Context(), f.tenant, "", "s", request); err != nil {
		t.Fatal(err)
	}
	tick := func() {
		t.Helper()
		f.exec(`UPDATE schedules SET next_at = now(), due_at = now()`)
		if run, err := f.d.RunSchedules(t.Context(), 10); err != nil || run.Worked != 1 {
			t.Fatalf("%+v %v", run, err)
		}
	}
	tick()
	taken := f.claim(f.claimCall("ticks"))
	if len(taken) != 1 {
		t.Fatalf("%d jobs of the first tick", len(taken))
	}
	follow(taken[0].ID, tick)
}

// A claimed job that was not delivered and goes back frees its place under a cap for other lanes.
func TestWhatIsGivenBackReleasesCapacity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refresh()
	f.override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(1))}})
	f.submit(in("a"), in("b"))
	running := f.claim(f.claimCall("a"))
	if more := f.claim(f.claimCall("b")); len(running) != 1 || len(more) != 0 {
		t.Fatalf("%d run and then %d, want 1 and 0", len(running), len(more))
	}
	waiting := f.park(t.Context(), f.waitCall("b"))[0]
	f.d.GiveBack(t.Context(), running)
	if got := <-waiting; len(got.jobs) != 1 || got.err != nil {
		t.Errorf("the job of the other queue: %d, %v", len(got.jobs), got.err)
	}
}
