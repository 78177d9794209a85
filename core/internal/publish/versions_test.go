package publish_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Each change of a job's state, attempt, progress and cancel is seen by those who wait for another version: in the core
// that makes it, and by the poll in another whose hints are lost.
func TestEachVersionIsSeen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.NewCore(celltest.OpenURL(t, f.URL)) // it gets no hints
	id := f.Submit(enginetest.Plain())[0]
	done := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	defer func() { stop(); <-done }()
	go func() {
		defer close(done)
		if err := other.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	var lease job.Lease
	seen := f.Get(id)
	step := func(what string, change func(), right func(api.Job) bool) {
		t.Helper()
		version := seen.Version()
		here, there := f.WaitVersion(f.D, id, version), f.WaitVersion(other, id, version)
		change()
		for where, found := range map[string]<-chan api.Job{"here": here, "elsewhere": there} {
			select {
			case seen = <-found:
				if !right(seen) || seen.Version() == version {
					t.Errorf("%s, %s: %+v", what, where, seen.JobSummary)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s was not seen %s", what, where)
			}
		}
	}
	report := func(percent float64) {
		t.Helper()
		if _, err := f.D.Heartbeat(t.Context(), []jobs.Report{{Lease: lease, Progress: &api.Progress{Percent: &percent}}}); err != nil {
			t.Fatal(err)
		}
	}
	step("the claim", func() { lease = f.Claim(f.ClaimCall())[0].Lease() }, func(j api.Job) bool { return j.State == api.StateRunning })
	for _, percent := range []float64{10, 20.5} {
		step(fmt.Sprint("progress ", percent), func() { report(percent) },
			func(j api.Job) bool { return j.Progress != nil && *j.Progress.Percent == percent })
	}
	step("the requested cancel", func() {
		if _, _, err := f.D.Cancel(t.Context(), f.Tenant, "", id); err != nil {
			t.Fatal(err)
		}
	}, func(j api.Job) bool { return j.CancelRequested })
	step("the end", func() { f.D.End(t.Context(), []jobs.Ending{{Lease: lease, Kind: api.KindComplete}}) },
		func(j api.Job) bool { return j.State == api.StateCompleted })
}
