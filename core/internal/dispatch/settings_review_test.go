package dispatch_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Settings that change after PostgreSQL's clock was set back are learned with the next
// full refresh, and not when the clock has come as far again.
func TestSettingsAreLearnedAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.d.PutQueue(t.Context(), f.tenant, "a", api.QueueRequest{}); err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE queues SET updated_at = updated_at + interval '1 hour'`)
	f.refresh()
	if err := f.store.Queues.Pause(t.Context(), f.tenant, "a", true); err != nil { // by another core
		t.Fatal(err)
	}
	f.d.ReadAllLanes()
	f.refresh()
	if !f.d.Settings(f.tenant, "a").Paused {
		t.Error("the queue is claimed from although it is paused")
	}
}
