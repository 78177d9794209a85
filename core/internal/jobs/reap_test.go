package jobs_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
)

// A core that came up before PostgreSQL's clock was set back reaps all the same: its
// beginning lies ahead then, and says nothing.
func TestReapAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Jobs(1)...)
	f.Expire(f.ClaimOne().ID)
	if reaped, err := f.Store.Jobs.Reap(t.Context(), time.Now().Add(time.Hour), 10, celltest.Half); err != nil || len(reaped) != 1 {
		t.Errorf("%d leases are taken back, want 1: %v", len(reaped), err)
	}
}
