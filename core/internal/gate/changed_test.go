package gate_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A job that is moved to another queue after a pass has read it does not pass there by its old limits.
func TestAJobThatIsMovedDuringAPass(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &api.KeySettingsRequest{MaxRunning: new(int64(1))})
	f.Put("other", api.QueueRequest{Keys: &api.KeySettingsRequest{MaxRunning: new(int64(1))}})
	first := f.batch(f.D, of("k", 2)...)[1]
	f.Store.Jobs.End(t.Context(), enginetest.Endings(f.take(1))) // the other one may pass now
	mover := celltest.Connect(t, f.URL)
	tx, err := mover.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `UPDATE jobs SET queue = 'other', gate = 0 WHERE id = $1`, first); err != nil {
		t.Fatal(err)
	}
	passed := make(chan error)
	go func() { passed <- f.D.PassGates(t.Context(), f.Tenant) }()
	celltest.EventuallyWithin(t, time.Minute, "the pass waits for the mover", func() bool {
		return f.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) > 0
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-passed; err != nil {
		t.Fatal(err)
	}
	if n := f.Count(`SELECT count(*) FROM jobs WHERE ready_at IS NOT NULL`); n != 0 {
		t.Error("it passed by the limits of the queue that it left")
	}
}
