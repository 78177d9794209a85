package submits_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Another core forgets the settings of a deleted queue with its next refresh, and those of one whose row is
// gone with its next full one.
func TestACoreForgetsADeletedQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.NewCore(f.Store)
	put := func(name string) {
		t.Helper()
		if err := f.Store.Queues.Put(t.Context(), f.Tenant, name, api.QueueRequest{MaxAttempts: new(9), Push: &api.PushRequest{URL: "https://example.com"}}); err != nil {
			t.Fatal(err)
		}
	}
	put("deleted")
	put("removed")
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	attempts := func(name string) int {
		t.Helper()
		answer := other.Submit(t.Context(), []submits.Call{f.Call(api.SubmitRequest{Type: "x", Queue: name})})[0]
		f.Accepted(answer)
		return int(answer.Jobs[0].Row.MaxAttempts)
	}
	if got := attempts("deleted"); got != 9 {
		t.Fatalf("before: %d attempts", got)
	}
	f.Exec(`DELETE FROM jobs`)
	f.Exec(`DELETE FROM queues WHERE name = 'removed'`)
	if err := f.D.DeleteQueue(t.Context(), f.Tenant, "deleted"); err != nil {
		t.Fatal(err)
	}
	other.ReadAllLanes()
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"deleted", "removed"} {
		if got := attempts(name); got != api.DefaultMaxAttempts {
			t.Errorf("%s: %d attempts", name, got)
		}
		if shown, err := other.Queue(t.Context(), f.Tenant, name); err != nil || shown.Mode != api.ModePull {
			t.Errorf("%s is shown as %+v, %v", name, shown, err)
		}
	}
}

// Jobs that two cores submit while their queue is deleted again and again are all there, and are all
// claimed; the queue is there as long as one is.
func TestSubmitsBesideTheDeletionOfTheirQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cores := []*enginetest.Core{f.D, f.NewCore(f.Store)}
	var accepted, completed, deletions, refusals atomic.Int32
	take := func() int {
		call := f.ClaimCall("q")
		call.Max = 10
		found, err := cores[1].Claim(t.Context(), call)
		if err != nil {
			t.Errorf("claim: %v", err)
		}
		var endings []jobs.Ending
		for _, one := range found {
			endings = append(endings, jobs.Ending{Lease: one.Lease(), Kind: api.KindComplete})
		}
		for _, ended := range f.Store.Jobs.End(t.Context(), endings) {
			if ended.Err == nil && ended.Outcome.State == string(job.Completed) {
				completed.Add(1)
			}
		}
		return len(found)
	}
	var group sync.WaitGroup
	for _, core := range cores { // the second never refreshes: it goes on with the lanes that it has cached
		group.Go(func() {
			for deletions.Load() < 20 && !t.Failed() {
				if answer := core.Submit(t.Context(), []submits.Call{f.Call(api.SubmitRequest{Type: "x", Queue: "q"})})[0]; answer.Err != nil || answer.Problem != nil {
					t.Errorf("submit: %v, %v", answer.Err, answer.Problem)
					continue
				}
				accepted.Add(1)
				take()
			}
		})
	}
	group.Go(func() {
		for deletions.Load() < 20 && !t.Failed() {
			switch err := cores[0].DeleteQueue(t.Context(), f.Tenant, "q"); {
			case err == nil:
				deletions.Add(1)
			case isNotEmpty(err):
				refusals.Add(1)
			default:
				t.Errorf("delete: %v", err)
			}
		}
	})
	group.Wait()
	// What is left is found, and brings its queue back.
	f.Submit(api.SubmitRequest{Type: "x", Queue: "q"})
	settled, err := f.Store.Queues.SettleDeleted(t.Context(), queues.DeletedPlace{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.D.Queue(t.Context(), f.Tenant, "q"); err != nil {
		t.Errorf("the queue: %v, %+v", err, settled)
	}
	if err := cores[1].Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for completed.Load() <= accepted.Load() && take() > 0 {
	}
	if completed.Load() != accepted.Load()+1 {
		t.Errorf("%d accepted and one more, %d completed", accepted.Load(), completed.Load())
	}
	if err := f.D.DeleteQueue(t.Context(), f.Tenant, "q"); err != nil {
		t.Error(err)
	}
	t.Logf("%d jobs, %d deletions, %d refusals", accepted.Load(), deletions.Load(), refusals.Load())
}

func isNotEmpty(err error) bool {
	p, ok := problem.From(err)
	return ok && p.Code == problem.QueueNotEmpty
}

// Nothing of a deleted tenant is accepted, claimed or pushed, also by a core that heard of it with its next
// refresh.
func TestADeletedTenantIsServedNoMore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.NewCore(f.Store)
	f.Submit(api.SubmitRequest{Type: "x"}, api.SubmitRequest{Type: "x", Queue: "pushed"})
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "pushed", api.QueueRequest{Push: &api.PushRequest{URL: "https://example.com"}}); err != nil {
		t.Fatal(err)
	}
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Store.Tenants.Delete(t.Context(), f.Tenant); err != nil {
		t.Fatal(err)
	}
	for name, core := range map[string]*enginetest.Core{"known before": other, "new": f.NewCore(f.Store)} {
		if err := core.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if answer := core.Submit(t.Context(), []submits.Call{f.Call(api.SubmitRequest{Type: "x"})})[0]; !errors.Is(answer.Err, tenants.ErrDeleted) {
			t.Errorf("%s: submit: %v, %v", name, answer.Err, answer.Problem)
		}
		for _, owner := range []tenant.ID{f.Tenant, tenant.Platform} {
			call := f.ClaimCall()
			call.Owner = owner
			if jobs, err := core.Claim(t.Context(), call); err != nil || len(jobs) > 0 {
				t.Errorf("%s: claimed %v, %v", name, jobs, err)
			}
		}
		pushed, _ := core.Cached.Lanes.PushSettings(-1)
		for _, settings := range pushed {
			if !settings.Paused {
				t.Errorf("%s: %+v is pushed", name, settings.QueueKey)
			}
		}
	}
}
