package claims_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A probe that took long, because PostgreSQL stalled, does not make the next ones
// wait nineteen times as long.
func TestAPollThatTookLongIsNotThePace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.In("a"))
	f.Run()
	celltest.Eventually(t, "the first scan", f.D.Scanned)
	call := f.ClaimCall("a")
	call.Wait = 40 * time.Second
	f.Park(t.Context(), call)
	unlock := f.LockJobs()
	f.BlockedFor(2, 2*time.Second) // the lookback poll and the scan
	unlock()
	f.Idle()
	// stored by another core whose hint is lost
	other := f.NewCore(celltest.OpenURL(t, f.URL))
	begun := time.Now()
	mine := f.D
	f.D = other
	ids := f.Submit(enginetest.In("a"))
	f.D = mine
	celltest.Eventually(t, "the job to be found", func() bool { return f.Get(ids[0]).State == api.StateRunning })
	if took := time.Since(begun); took > 12*time.Second {
		t.Errorf("the job was found after %v", took)
	}
}
