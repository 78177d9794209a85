package cache_test

import (
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Settings that change after PostgreSQL's clock was set back are learned with the next
// full refresh, and not when the clock has come as far again.
func TestSettingsAreLearnedAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.D.PutQueue(t.Context(), f.Tenant, "a", api.QueueRequest{}); err != nil {
		t.Fatal(err)
	}
	f.Exec(`UPDATE queues SET updated_at = updated_at + interval '1 hour'`)
	f.Refresh()
	if err := f.Store.Queues.Pause(t.Context(), f.Tenant, "a", true); err != nil { // by another core
		t.Fatal(err)
	}
	f.D.ReadAllLanes()
	f.Refresh()
	if !f.D.Settings(f.Tenant, "a").Paused {
		t.Error("the queue is claimed from although it is paused")
	}
}
