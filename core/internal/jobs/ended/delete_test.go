package ended_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// An ended job is forgotten with its attempts and its edges; others stay.
func TestDeleteJob(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	user := func(j *submit.NewJob) { j.User = new("ada") }
	other := f.Submit(f.Job())[0]
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindFail, Permanent: true, Error: &api.JobError{Type: "t", Message: "m"}})
	ends := map[job.State]func(jobs.Ending, uuid.UUID){
		job.Completed:  func(held jobs.Ending, _ uuid.UUID) { held.Kind = api.KindComplete; f.MustEnd(held) },
		job.DeadLetter: func(held jobs.Ending, _ uuid.UUID) { held.Kind, held.Permanent = api.KindFail, true; f.MustEnd(held) },
		job.Cancelled: func(held jobs.Ending, id uuid.UUID) {
			if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", id); err != nil {
				t.Fatal(err)
			}
			held.Kind = api.KindFail
			f.MustEnd(held)
		},
	}
	for state, end := range ends {
		id := f.Submit(f.Job(user, func(j *submit.NewJob) { j.After = []submit.After{{Parent: other, OnFailed: job.RunChild}} }))[0]
		if _, err := f.Store.EndedJobs.Delete(t.Context(), f.Tenant, "", id); !errors.Is(err, jobs.ErrLive) {
			t.Errorf("%s, queued: %v", state, err)
		}
		held := f.ClaimOne()
		if _, err := f.Store.EndedJobs.Delete(t.Context(), f.Tenant, "", id); !errors.Is(err, jobs.ErrLive) {
			t.Errorf("%s, running: %v", state, err)
		}
		end(jobs.Ending{Lease: held.Lease(), Error: &api.JobError{Type: "t", Message: "m"}}, id)
		for name, refused := range map[string]func() (job.State, error){
			"another tenant": func() (job.State, error) { return f.Store.EndedJobs.Delete(t.Context(), f.NewTenant(), "", id) },
			"another user":   func() (job.State, error) { return f.Store.EndedJobs.Delete(t.Context(), f.Tenant, "bob", id) },
		} {
			if got, err := refused(); !errors.Is(err, store.ErrNotFound) || got != "" {
				t.Errorf("%s, %s: %q %v", state, name, got, err)
			}
		}
		if got, err := f.Store.EndedJobs.Delete(t.Context(), f.Tenant, "ada", id); err != nil || got != state {
			t.Errorf("%s: %q %v", state, got, err)
		}
		if _, err := f.Store.EndedJobs.Delete(t.Context(), f.Tenant, "", id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s, again: %v", state, err)
		}
		if n := f.Count("jobs") + f.Count("finished_jobs") + f.Count("dependencies"); n != 0 || f.Count("dead_letters") != 1 || f.Count("attempts") != 1 {
			t.Errorf("%s: %d rows are left, %d attempts", state, n, f.Count("attempts"))
		}
	}
}

// A dead letter that is redriven at the same moment is deleted, or lives: never both, and never lost.
func TestDeleteBesideARedrive(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	for range 20 {
		id := f.Submit(f.Job())[0]
		f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindFail, Permanent: true})
		var group sync.WaitGroup
		var deleted, redriven error
		group.Go(func() { _, deleted = f.Store.EndedJobs.Delete(context.WithoutCancel(t.Context()), f.Tenant, "", id) })
		group.Go(func() {
			redriven = f.Store.DeadLetters.Redrive(context.WithoutCancel(t.Context()), f.Tenant, "", []uuid.UUID{id}, nil)[0].Err
		})
		group.Wait()
		switch live := f.Count("jobs"); {
		case deleted == nil && errors.Is(redriven, store.ErrNotFound) && live == 0:
		case errors.Is(deleted, jobs.ErrLive) && redriven == nil && live == 1:
			f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
		default:
			t.Fatalf("deleted: %v, redriven: %v, %d live", deleted, redriven, live)
		}
	}
}
