package sweep_test

import (
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/watch"
	"github.com/forgequeue/forgequeue/shared/api"
)

func after(parents ...uuid.UUID) func(*submit.NewJob) {
	return func(j *submit.NewJob) {
		for _, parent := range parents {
			j.After = append(j.After, submit.After{Parent: parent, OnFailed: job.CancelChild})
		}
	}
}

// A chain of 1,000 jobs: the cancel of the first one reaches the last, step by step.
func TestACancelTravelsDownAChain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	duty := f.duties().FollowUps()
	f.store.Dependencies.OnFollowUp(duty.Kick)
	f.run(duty.Run)
	const length = 1000
	first := f.submit(1, 0)[0]
	last := first
	for range length - 1 {
		last = f.submit(1, 0, after(last))[0]
	}
	if _, _, err := f.store.Jobs.Cancel(t.Context(), f.tenant, "", first); err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "the whole chain is cancelled", func() bool {
		return f.count(`SELECT count(*) FROM finished_jobs WHERE state = 'cancelled'`) == length
	})
	if got := f.get(last); got.LastError == nil || got.LastError.Type != api.ErrorParentFailed {
		t.Errorf("the last one: %+v", got)
	}
	if left := f.count(`SELECT count(*) FROM follow_ups`); left != 0 {
		t.Errorf("%d follow-ups are left", left)
	}
}

// A child that no longer waits wakes claims, and callers that wait for a cancelled one are notified.
func TestFollowUpsAreTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parents := f.submit(2, 0)
	f.submit(1, 0, after(parents[0]))
	cancelled := f.submit(1, 0, after(parents[1]))[0]
	if err := f.d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	claimed, err := f.d.Claim(t.Context(), claims.Call{Owner: f.tenant, WorkerID: "w1", Queues: []string{"default"}, Max: 1})
	if err != nil || len(claimed) != 1 || claimed[0].ID != parents[0] {
		t.Fatal(claimed, err)
	}
	if ended := f.d.End(t.Context(), enginetest.Endings(claimed))[0]; ended.Err != nil {
		t.Fatal(ended.Err)
	}
	if _, _, err := f.store.Jobs.Cancel(t.Context(), f.tenant, "", parents[1]); err != nil {
		t.Fatal(err)
	}
	told := make(chan api.Job, 1)
	go func() {
		got, err := f.d.WaitJob(t.Context(), watch.Call{Tenant: f.tenant, ID: cancelled, Wait: enginetest.Long, Ended: true})
		if err != nil {
			t.Error(err)
		}
		told <- got
	}()
	celltest.Eventually(t, "a watch", func() bool { return slices.Contains(f.d.Watches.Next(1<<20, 0), cancelled) })
	before := f.wakeUps()
	if _, err := f.duties().FollowUps().RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.wakeUps() - before; n != 1 {
		t.Errorf("%d wake-ups, want 1", n)
	}
	if got := <-told; got.State != api.StateCancelled {
		t.Errorf("who waits for the cancelled child got %s", got.State)
	}
}

// Each tenant has one step in a round: a fan-out of one does not delay another's single child.
func TestTenantsTakeTurnsInFollowUps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const width = 1000
	root := f.submit(1, 0)[0]
	f.submit(width, 0, after(root))
	duty := f.duties().FollowUps()
	if _, _, err := f.store.Jobs.Cancel(t.Context(), f.tenant, "", root); err != nil {
		t.Fatal(err)
	}
	other := newFixtureOn(f)
	single := other.submit(1, 0)[0]
	child := other.submit(1, 0, after(single))[0]
	if _, _, err := f.store.Jobs.Cancel(t.Context(), other.tenant, "", single); err != nil {
		t.Fatal(err)
	}
	if err := f.duties().FollowUpRound(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := other.get(child); got.State != api.StateCancelled {
		t.Errorf("after one round the other tenant's child is %s", got.State)
	}
	if n := f.count(`SELECT count(*) FROM finished_jobs WHERE tenant_id = $1`, f.tenant); n <= 1 || n > width/2 {
		t.Errorf("after one round %d jobs of the fan-out are cancelled", n)
	}
	if _, err := duty.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := f.count(`SELECT count(*) FROM jobs`); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
}

// A job that another session has locked delays the follow-ups of its own tenant.
func TestALockedChildDelaysNoOtherTenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	duty := f.duties().FollowUps()
	other := newFixtureOn(f)
	children := map[*fixture]uuid.UUID{}
	for _, one := range []*fixture{f, other} {
		parent := one.submit(1, 0)[0]
		children[one] = one.submit(1, 0, after(parent))[0]
		if _, _, err := one.store.Jobs.Cancel(t.Context(), one.tenant, "", parent); err != nil {
			t.Fatal(err)
		}
	}
	holder, err := celltest.Connect(t, f.url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), `SELECT FROM jobs WHERE id = $1 FOR UPDATE`, children[f]); err != nil {
		t.Fatal(err)
	}
	if _, err := duty.RunOnce(t.Context()); !store.LockTimedOut(err) {
		t.Errorf("with a locked child: %v", err)
	}
	if got := other.get(children[other]); got.State != api.StateCancelled {
		t.Errorf("the other tenant's child is %s", got.State)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := duty.RunOnce(t.Context()); err != nil || f.get(children[f]).State != api.StateCancelled {
		t.Errorf("once it is free: %v, %s", err, f.get(children[f]).State)
	}
}

// What another core has left is found without a kick.
func TestFollowUpsThatNobodyKicked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parent := f.submit(1, 0)[0]
	child := f.submit(1, 0, after(parent))[0]
	if _, _, err := f.store.Jobs.Cancel(t.Context(), f.tenant, "", parent); err != nil {
		t.Fatal(err)
	}
	f.run(f.duties().FollowUps().Run)
	celltest.Eventually(t, "the child is cancelled", func() bool { return f.get(child).State == api.StateCancelled })
}

// newFixtureOn is another tenant of the same database.
func newFixtureOn(f *fixture) *fixture {
	f.Helper()
	other := &fixture{TB: f.TB, url: f.url, store: f.store, direct: f.direct, d: f.d, tenant: uuid.Must(uuid.NewV7()), batches: f.batches}
	made, err := f.store.Lanes.Ensure(f.Context(), other.tenant, []lanes.Ask{{Key: lanes.NewKey(other.tenant, "default", "test", nil)}})
	if err != nil {
		f.Fatal(err)
	}
	other.lane = made[0].Lane
	return other
}
