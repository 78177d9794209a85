package dispatch_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A probe that took long, because PostgreSQL stalled, does not make the next ones
// wait nineteen times as long.
func TestAPollThatTookLongIsNotThePace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(in("a"))
	f.run()
	celltest.Eventually(t, "the first scan", f.d.Scanned)
	call := f.claimCall("a")
	call.Wait = 40 * time.Second
	f.park(t.Context(), call)
	unlock := f.lockJobs()
	f.blockedFor(2, 2*time.Second) // the lookback poll and the scan
	unlock()
	f.idle()
	// stored by another core whose hint is lost
	other := f.newCore(celltest.OpenURL(t, f.url))
	begun := time.Now()
	mine := f.d
	f.d = other
	ids := f.submit(in("a"))
	f.d = mine
	celltest.Eventually(t, "the job to be found", func() bool { return f.get(ids[0]).State == api.StateRunning })
	if took := time.Since(begun); took > 12*time.Second {
		t.Errorf("the job was found after %v", took)
	}
}
