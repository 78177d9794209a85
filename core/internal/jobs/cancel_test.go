package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestCancel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.Submit(f.Job(), f.Job(func(j *submit.NewJob) { j.Delay = time.Hour }), f.Job())
	running := f.ClaimOne()
	if running.ID != ids[0] {
		t.Fatal("the first job was not claimed first")
	}
	for _, want := range []jobs.CancelResult{jobs.CancelEnded, jobs.CancelRepeated} {
		for _, id := range ids[1:] {
			got, did, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", id)
			if err != nil || did != want || got.State != api.StateCancelled || got.FinishedAt == nil {
				t.Fatalf("a waiting job: %+v %v %v", got, did, err)
			}
		}
		got, did, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", running.ID)
		if err != nil || did != jobs.CancelRequested || got.State != api.StateRunning || !got.CancelRequested {
			t.Fatalf("a running job: %+v %v %v", got, did, err)
		}
	}
	f.MustEnd(jobs.Ending{Lease: running.Lease(), Kind: api.KindComplete})
	if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", running.ID); !errors.Is(err, jobs.ErrTerminal) {
		t.Errorf("a completed job: %v", err)
	}
	if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.NewTenant(), "", ids[1]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a foreign job: %v", err)
	}
	if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "bob", ids[1]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another user's job: %v", err)
	}
}
