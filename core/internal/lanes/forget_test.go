package lanes_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/submit"
)

// idle makes lanes unused for a while.
func (f *fixture) idle() {
	f.Helper()
	f.Exec(`UPDATE lanes SET used_at = used_at - interval '1 day', retired_at = retired_at - interval '1 day'`)
}

// forget runs both steps of the duty once, of which each finds what the other left a day
// before.
func (f *fixture) forget() (retired, deleted int) {
	f.Helper()
	f.idle()
	_, retired, err := f.Store.Lanes.Retire(f.Context(), 1000)
	if err != nil {
		f.Fatal(err)
	}
	f.idle()
	_, deleted, err = f.Store.Lanes.Delete(f.Context(), 1000)
	if err != nil {
		f.Fatal(err)
	}
	return retired, deleted
}

// A lane with a job, in whatever state, stays; one without goes; one that is asked for
// while it is retired is the same one again, and its id is not used after that.
func TestLanesAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	in := func(lane lanes.Lane) func(*submit.NewJob) {
		return func(j *submit.NewJob) { j.Lane, j.Queue = lane.ID, lane.Queue }
	}
	queued, scheduled, running, empty := f.NewLane(f.Tenant, "queued"), f.NewLane(f.Tenant, "scheduled"), f.NewLane(f.Tenant, "running"), f.NewLane(f.Tenant, "empty")
	f.Submit(f.Job(in(queued)), f.Job(in(scheduled), func(j *submit.NewJob) { j.Delay = time.Hour }), f.Job(in(running)))
	if n := len(f.Claim(1, time.Hour, running)); n != 1 {
		t.Fatalf("claimed %d", n)
	}
	f.idle()
	if seen, retired, err := f.Store.Lanes.Retire(t.Context(), 1000); seen != 5 || retired != 2 || err != nil {
		t.Errorf("checked %d lanes and retired %d (%v), want the empty one and the fixture's", seen, retired, err)
	}
	if again := f.ask("", empty.Key)[0]; again.Lane != empty {
		t.Errorf("a retired lane is asked for: %+v, want %+v", again, empty)
	}
	if seen, deleted, err := f.Store.Lanes.Delete(t.Context(), 1000); seen != 0 || deleted != 0 || err != nil {
		t.Errorf("at once %d of %d are deleted (%v)", deleted, seen, err)
	}
	f.idle()
	if _, deleted, err := f.Store.Lanes.Delete(t.Context(), 1000); deleted != 1 || err != nil {
		t.Errorf("%d deleted (%v), want the fixture's", deleted, err)
	}
	if fresh := f.NewLane(f.Tenant, "default"); fresh.ID <= empty.ID {
		t.Errorf("the lane has the id %d again", fresh.ID)
	}
	if retired, deleted := f.forget(); retired != 2 || deleted != 2 {
		t.Errorf("%d retired, %d deleted, want the two without jobs", retired, deleted)
	}
	if n := f.Count("lanes"); n != 3 {
		t.Errorf("%d lanes, want those with jobs", n)
	}
	if orphans, last, err := f.Store.Lanes.OrphanLanes(t.Context(), 0, 100); len(orphans) != 0 || last != 0 || err != nil {
		t.Errorf("orphans %v behind %d (%v)", orphans, last, err)
	}
}

// A job that comes to a retired lane by a core that does not know yet takes the lane
// into use again.
func TestARetiredLaneThatGotAJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.idle()
	if _, retired, err := f.Store.Lanes.Retire(t.Context(), 1000); retired != 1 || err != nil {
		t.Fatal(retired, err)
	}
	f.Submit(f.Job())
	f.idle()
	if seen, deleted, err := f.Store.Lanes.Delete(t.Context(), 1000); seen != 1 || deleted != 0 || err != nil {
		t.Errorf("%d of %d deleted (%v)", deleted, seen, err)
	}
	if n := f.Count("lanes WHERE retired_at IS NULL"); n != 1 {
		t.Error("the lane is not in use again")
	}
	f.ClaimOne()
}

// Jobs whose lane is gone all the same are found, whatever they wait for, in bounded
// steps.
func TestOrphansAreFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var lost []uuid.UUID
	for _, name := range []string{"a", "b", "c"} {
		lane := f.NewLane(f.Tenant, name)
		in := func(j *submit.NewJob) { j.Lane, j.Queue = lane.ID, name }
		ids := f.Submit(f.Job(in), f.Job(in, func(j *submit.NewJob) { j.Delay = time.Hour }))
		if name != "b" {
			f.Exec(`DELETE FROM lanes WHERE id = $1`, lane.ID)
			lost = append(lost, ids...)
		}
	}
	var found []uuid.UUID
	steps := 0
	for after := lanes.ID(0); ; steps++ {
		orphans, last, err := f.Store.Lanes.OrphanLanes(t.Context(), after, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, lane := range orphans {
			jobs, err := f.Store.Lanes.JobsOfLane(t.Context(), lane, 10)
			if err != nil {
				t.Fatal(err)
			}
			for _, job := range jobs {
				found = append(found, job.ID)
			}
		}
		if after = last; last == 0 {
			break
		}
	}
	if len(found) != len(lost) || steps != 3 {
		t.Errorf("found %d of %d jobs in %d steps", len(found), len(lost), steps)
	}
}
