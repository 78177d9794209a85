package dependency_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

type fixture struct{ *celltest.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{celltest.NewFixture(t)}
}

// after makes a job come after others.
func after(policy job.OnFailed, parents ...uuid.UUID) func(*submit.NewJob) {
	return func(j *submit.NewJob) {
		for _, parent := range parents {
			j.After = append(j.After, submit.After{Parent: parent, OnFailed: policy})
		}
	}
}

// one submits a job.
func (f *fixture) one(change ...func(*submit.NewJob)) uuid.UUID {
	f.Helper()
	return f.Submit(f.Job(change...))[0]
}

// followed are the children that follow-ups have changed.
type followed struct{ Unblocked, Cancelled []jobs.Change }

// followUp works off all follow-ups of the tenant.
func (f *fixture) followUp() (all followed) {
	f.Helper()
	for {
		step, err := f.Store.Jobs.FollowUp(f.Context(), f.Tenant)
		if err != nil {
			f.Fatal(err)
		}
		for _, one := range step.Changes {
			if one.Event == job.Unblock {
				all.Unblocked = append(all.Unblocked, one)
			} else {
				all.Cancelled = append(all.Cancelled, one)
			}
		}
		if step.Done == 0 && !step.More {
			return all
		}
	}
}

// lease claims one job, and fails the test where it is another.
func (f *fixture) lease(want uuid.UUID) claim.Job {
	f.Helper()
	got := f.ClaimOne()
	if got.ID != want {
		f.Fatalf("claimed %s, want %s", got.ID, want)
	}
	return got
}

func (f *fixture) complete(id uuid.UUID) {
	f.Helper()
	f.MustEnd(jobs.Ending{Lease: f.lease(id).Lease(), Kind: api.KindComplete})
}

func (f *fixture) kill(id uuid.UUID) {
	f.Helper()
	f.MustEnd(jobs.Ending{Lease: f.lease(id).Lease(), Kind: api.KindFail, Permanent: true, Error: &api.JobError{Type: "e", Message: "broken"}})
}

func (f *fixture) redrive(id uuid.UUID) api.JobSummary {
	f.Helper()
	redriven := f.Store.DeadLetters.Redrive(f.Context(), f.Tenant, "", []uuid.UUID{id}, nil)
	if redriven[0].Err != nil {
		f.Fatal(redriven[0].Err)
	}
	return *redriven[0].Job
}

func (f *fixture) cancel(id uuid.UUID) {
	f.Helper()
	if _, _, err := f.Store.Jobs.Cancel(f.Context(), f.Tenant, "", id); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) state(id uuid.UUID) string {
	f.Helper()
	return f.Get(id).State
}

func (f *fixture) wantState(id uuid.UUID, want string) {
	f.Helper()
	if got := f.Get(id); got.State != want {
		f.Errorf("the job is %s, want %s; after %+v, error %+v", got.State, want, got.After, got.LastError)
	}
}

// verify fails the test where an invariant is broken.
func (f *fixture) verify() {
	f.Helper()
	lines, err := f.Store.Dependencies.VerifyDependencies(f.Context())
	if err != nil || len(lines) > 0 {
		f.Errorf("verify: %q, %v", lines, err)
	}
	if n := f.Count("follow_ups"); n != 0 {
		f.Errorf("%d follow-ups are left", n)
	}
}

func (f *fixture) expireDeadlines() {
	f.Helper()
	f.Exec(`UPDATE jobs SET deadline = statement_timestamp() - interval '1 millisecond' WHERE deadline IS NOT NULL`)
	if _, err := f.Store.Jobs.ExpireDeadlines(f.Context(), jobs.AllTime, 1000); err != nil {
		f.Fatal(err)
	}
}

func dueLater(j *submit.NewJob) {
	at := time.Now().Add(time.Hour)
	j.Deadline = &at
}

// openWithRetention is a core that deletes dead letters after 30 days.
func openWithRetention(f *fixture) *cell.Cell {
	f.Helper()
	opened, err := cell.Open(f.Context(), cell.Options{
		Options:   store.Options{URL: f.URL, MaxConns: 2, PoolWait: 5 * time.Second},
		Retention: retention.Periods{DeadLetters: 30 * 24 * time.Hour},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(opened.Close)
	return opened
}
