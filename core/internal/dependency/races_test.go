package dependency_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// holding runs a statement in a transaction of the test's own, which ends with release.
func (f *fixture) holding(sql string, args ...any) (release func()) {
	f.Helper()
	tx, err := celltest.Connect(f, f.URL).Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	if _, err := tx.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
	return func() {
		if err := tx.Commit(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
}

// untilWaiting waits until n sessions wait for a lock.
func (f *fixture) untilWaiting(n int) {
	f.Helper()
	conn := celltest.Connect(f, f.URL)
	celltest.EventuallyWithin(f, 30*time.Second, "sessions wait for locks", func() bool {
		var waiting int
		err := conn.QueryRow(f.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		return err == nil && waiting == n
	})
}

// TestTwoParentsEndAtTheSameMoment: two cores resolve the two last edges of the same jobs in transactions
// that overlap: when the second begins, the first has resolved its edges and has not committed. Each
// job is released by one of them.
func TestTwoParentsEndAtTheSameMoment(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const children = 3
	first, second := f.one(), f.one()
	jobs := make([]submit.NewJob, children)
	for i := range jobs {
		jobs[i] = f.Job(after(job.CancelChild, first, second))
	}
	f.TrySubmit(submit.Submission{Tenant: f.Tenant, Batch: true, Jobs: jobs})
	f.complete(first)
	f.complete(second)
	freeSecond := f.holding(`SELECT FROM follow_ups WHERE job_id = $1 FOR UPDATE`, second)
	// A step ends by deleting its follow-ups. Not LOCK TABLE: that would stop it as its statements are prepared.
	f.Exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(17); RETURN OLD; END $$`)
	f.Exec(`CREATE TRIGGER wait BEFORE DELETE ON follow_ups FOR EACH ROW EXECUTE FUNCTION wait()`)
	release := f.holding(`SELECT pg_advisory_xact_lock(17)`)
	var group sync.WaitGroup
	follow := func() {
		core := celltest.OpenURL(t, f.URL)
		group.Go(func() {
			if _, err := core.Jobs.FollowUp(f.Context(), f.Tenant); err != nil {
				f.Error(err)
			}
		})
	}
	follow() // the other is locked, so it works off the first
	f.untilWaiting(1)
	freeSecond()
	follow()
	f.untilWaiting(2) // the second waits for the first, before it asks what is left
	release()
	group.Wait()
	f.followUp()
	blocked := 0
	for _, one := range jobs {
		if f.state(one.ID) == api.StateBlocked {
			blocked++
		}
	}
	if blocked > 0 {
		t.Errorf("%d jobs are blocked, and wait for nothing", blocked)
	}
	f.verify()
}

// TestASubmitWaitsForAParentThatIsEnding: the parent's end is not committed yet when the child is
// submitted. The child sees how it ended.
func TestASubmitWaitsForAParentThatIsEnding(t *testing.T) {
	t.Parallel()
	for _, policy := range []job.OnFailed{job.CancelChild, job.RunChild, job.HoldChild} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			parent := f.one()
			lease := f.lease(parent).Lease()
			// the end waits in its last statement
			release := f.holding(`LOCK TABLE attempts IN EXCLUSIVE MODE`)
			var group sync.WaitGroup
			group.Go(func() {
				f.Store.Jobs.End(f.Context(), []jobs.Ending{{Lease: lease, Kind: api.KindFail, Permanent: true, Error: &api.JobError{Type: "e"}}})
			})
			f.untilWaiting(1)
			var child uuid.UUID
			made := f.Job(after(policy, parent))
			group.Go(func() { child = f.Submit(made)[0] })
			f.untilWaiting(2)
			release()
			group.Wait()
			f.followUp()
			f.wantState(child, wantAfter(job.DeadLetter, policy))
			f.verify()
		})
	}
}

// TestAnEndWaitsForASubmitThatFollows: the child is not committed yet when its parent ends. The end
// reaches it.
func TestAnEndWaitsForASubmitThatFollows(t *testing.T) {
	t.Parallel()
	for _, flagged := range []bool{false, true} {
		f := newFixture(t)
		parent := f.one()
		if flagged { // then the submit changes nothing of the parent
			f.one(after(job.CancelChild, parent))
		}
		lease := f.lease(parent).Lease()
		release := f.holding(`LOCK TABLE dependencies IN EXCLUSIVE MODE`)
		made := f.Job(after(job.CancelChild, parent))
		var group sync.WaitGroup
		group.Go(func() { f.Submit(made) })
		f.untilWaiting(1)
		group.Go(func() { f.Store.Jobs.End(f.Context(), []jobs.Ending{{Lease: lease, Kind: api.KindComplete}}) })
		f.untilWaiting(2)
		release()
		group.Wait()
		f.followUp()
		f.wantState(made.ID, api.StateQueued)
		f.verify()
	}
}

// TestASessionKilledInAFollowUp: nothing of the step stays, and the next one does all of it.
func TestASessionKilledInAFollowUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parent := f.one()
	child := f.one(after(job.CancelChild, parent))
	f.complete(parent)
	release := f.holding(`SELECT FROM dependencies FOR UPDATE`)
	var group sync.WaitGroup
	var err error
	core := celltest.OpenURL(t, f.URL)
	group.Go(func() { _, err = core.Jobs.FollowUp(f.Context(), f.Tenant) })
	f.untilWaiting(1)
	f.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	group.Wait()
	if err == nil {
		t.Error("the step has succeeded without its session")
	}
	release()
	f.wantState(child, api.StateBlocked)
	celltest.Eventually(t, "the ended session to let its row go", func() bool { return len(f.followUp().Unblocked) > 0 })
	f.wantState(child, api.StateQueued)
	f.verify()
}
