package gate_test

import (
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What appends a check kicks the duty that works it off: nobody waits for its next poll.
func TestEachCheckKicksTheDuty(t *testing.T) {
	t.Parallel()
	f := newFixture(t, &api.KeySettingsRequest{MaxRunning: new(int64(1))})
	var kicks atomic.Int64
	f.Store.Gates.OnCheck(func() { kicks.Add(1) })
	kicked := func(what string, do func()) {
		t.Helper()
		kicks.Store(0)
		do()
		if n := f.Count(`SELECT count(*) FROM key_checks`); n == 0 || kicks.Load() == 0 {
			t.Errorf("%s: %d checks, %d kicks", what, n, kicks.Load())
		}
		f.pass()
	}
	ids := f.batch(f.D, of("k", 3)...)
	kicked("cancel", func() {
		if _, _, err := f.D.Cancel(t.Context(), f.Tenant, "", ids[0]); err != nil {
			t.Fatal(err)
		}
	})
	f.end(f.take(1), func(e *jobs.Ending) { e.Kind, e.Permanent, e.Error = api.KindFail, true, &api.JobError{Type: "E"} })
	kicked("redrive", func() {
		if done := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", []uuid.UUID{ids[1]}, nil); done[0].Err != nil {
			t.Fatal(done[0].Err)
		}
	})
	kicked("settings", func() {
		f.Put(api.DefaultQueue, api.QueueRequest{Keys: &api.KeySettingsRequest{MaxRunning: new(int64(5))}})
	})
}
