package claims_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/submits"
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

// While hints arrive and nothing waits the scan is seldom; a job that other cores stored, of which no hint came, is found all
// the same.
func TestTheScanIsSeldomWhileHintsArrive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.In("a"))
	other := f.D
	var arrive atomic.Bool
	f.D = f.NewCoreWith(engine.Options{Store: celltest.OpenURL(t, f.URL), Hints: publish.Hints{Arrive: arrive.Load}})
	f.Refresh()
	f.Run()
	celltest.Eventually(t, "the first scan", f.D.Scanned)
	call := f.ClaimCall("a")
	call.Wait = 40 * time.Second
	waiting := f.GoClaim(t.Context(), call)
	celltest.Eventually(t, "the claim to park", func() bool { return f.D.ParkedClaims() == 1 })
	if !f.D.ScanDue() {
		t.Error("without hints it is not due each second")
	}
	arrive.Store(true)
	celltest.Eventually(t, "a scan that finds nothing", func() bool { return !f.D.ScanDue() })
	f.D.ScanFailed()
	if !f.D.ScanDue() {
		t.Error("after a scan that failed it is not due")
	}
	celltest.Eventually(t, "a scan that finds nothing", func() bool { return !f.D.ScanDue() })
	f.D.Wake([]jobs.Ready{{Lane: lanes.ID(1)}})
	if !f.D.ScanDue() {
		t.Error("while jobs become ready it is not due each second")
	}
	celltest.Eventually(t, "no job to become ready for a while", func() bool { return !f.D.ScanDue() })
	arrive.Store(false)
	if !f.D.ScanDue() {
		t.Error("it is not due at once when hints are lost")
	}
	arrive.Store(true)
	celltest.Eventually(t, "quiet", func() bool { return !f.D.ScanDue() })
	f.Accepted(other.Submit(t.Context(), []submits.Call{f.Call(enginetest.In("a"))})...)
	if got := <-waiting; len(got.Jobs) != 1 || got.Err != nil {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
}
