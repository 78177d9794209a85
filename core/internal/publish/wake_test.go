package publish_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/watch"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Nothing polls in these tests: what is not told is not heard.

// A discard wakes the clients that wait for a redrive of the job.
func TestADiscardWakesWhoWatches(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(enginetest.Plain())[0]
	lease := f.Claim(f.ClaimCall())[0].Lease()
	if ended := f.D.End(t.Context(), []jobs.Ending{{Lease: lease, Kind: api.KindFail, Permanent: true}})[0]; ended.Err != nil {
		t.Fatal(ended.Err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := f.D.WaitJob(t.Context(), watch.Call{Tenant: f.Tenant, ID: id, Wait: enginetest.Long, Seen: api.StateDeadLetter})
		answered <- err
	}()
	f.Watched(id)
	if gone, err := f.D.Discard(t.Context(), f.Tenant, "", []uuid.UUID{id}); err != nil || !gone[id] {
		t.Fatalf("%v %v", gone, err)
	}
	if err := <-answered; !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the discard was not told: %v", err)
	}
}

// A claimed job that was not delivered and goes back frees its place under a cap for other lanes.
func TestWhatIsGivenBackReleasesCapacity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Refresh()
	f.Override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(1))}})
	f.Submit(enginetest.In("a"), enginetest.In("b"))
	running := f.Claim(f.ClaimCall("a"))
	if more := f.Claim(f.ClaimCall("b")); len(running) != 1 || len(more) != 0 {
		t.Fatalf("%d run and then %d, want 1 and 0", len(running), len(more))
	}
	waiting := f.Park(t.Context(), f.WaitCall("b"))[0]
	f.D.GiveBack(t.Context(), running)
	if got := <-waiting; len(got.Jobs) != 1 || got.Err != nil {
		t.Errorf("the job of the other queue: %d, %v", len(got.Jobs), got.Err)
	}
}
