package queue_test

import (
	"testing"
	"time"
)

// A core that came up before PostgreSQL's clock was set back reaps all the same: its
// beginning lies ahead then, and says nothing.
func TestReapAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(f.jobs(1)...)
	f.expire(f.claimOne().ID)
	if reaped, err := f.store.Reap(t.Context(), time.Now().Add(time.Hour), 10, half); err != nil || len(reaped) != 1 {
		t.Errorf("%d leases are taken back, want 1: %v", len(reaped), err)
	}
}
