package claims_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
)

// What a core knows of lanes follows the table: a retired one is asked for again before
// a job is stored in it, and of one that is gone nothing is left.
func TestForgottenLanes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.Submit(enginetest.Plain())[0]
	lane := f.Count(`SELECT lane_id FROM jobs WHERE id = $1`, first)
	f.Exec(`UPDATE lanes SET retired_at = statement_timestamp()`)
	f.Refresh()
	f.Submit(enginetest.Plain())
	if n := f.Count(`SELECT count(*) FROM lanes WHERE id = $1 AND retired_at IS NULL`, lane); n != 1 {
		t.Error("a job was stored in a retired lane")
	}
	if jobs := f.Claim(f.ClaimCall()); len(jobs) != 2 {
		t.Fatalf("claimed %d", len(jobs))
	}
	f.Exec(`DELETE FROM jobs`)
	f.Exec(`DELETE FROM lanes`)
	f.D.ReadAllLanes()
	f.Refresh()
	if n := f.D.KnownLists(); n != 0 {
		t.Errorf("lists of %d lanes are remembered", n)
	}
	f.Submit(enginetest.Plain())
	if n := f.Count(`SELECT count(*) FROM lanes WHERE id > $1`, lane); n != 1 {
		t.Error("a job was stored in a lane that is gone")
	}
	if jobs := f.Claim(f.ClaimCall()); len(jobs) != 1 {
		t.Fatalf("claimed %d", len(jobs))
	}
}

// A standby that lagged is promoted: the id of a lane that was lost is now another's. No job is stored
// there, and none claimed.
func TestLanesOfAnotherPrimary(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Plain())
	f.Exec(`DELETE FROM jobs`)
	f.Exec(`UPDATE lanes SET queue = 'of-another'`)
	f.D.NewPrimary()
	stored := f.Submit(enginetest.Plain())[0]
	if n := f.Count(`SELECT count(*) FROM jobs j JOIN lanes l ON l.id = j.lane_id WHERE l.queue = j.queue`); n != 1 {
		t.Error("the job is in a lane of another queue")
	}
	if jobs := f.Claim(f.ClaimCall()); len(jobs) != 1 || jobs[0].ID != stored {
		t.Errorf("claimed %v", jobs)
	}
}

// When lanes are deleted their ready lists are dropped, in every refresh.
func TestAChangeOfAQueueForgetsLanes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Plain())
	f.Exec(`DELETE FROM lanes`)
	f.D.ReadAllLanes()
	if _, err := f.D.PauseQueue(t.Context(), f.Tenant, "another", true); err != nil {
		t.Fatal(err)
	}
	if n := f.D.KnownLists(); n != 0 {
		t.Errorf("lists of %d lanes are remembered", n)
	}
}
