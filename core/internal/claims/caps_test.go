package claims_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func byUser(jobs []claim.Job) map[string]int {
	counts := map[string]int{}
	for _, j := range jobs {
		user := ""
		if j.UserID != nil {
			user = *j.UserID
		}
		counts[user]++
	}
	return counts
}

func (f *fixture) noDrift() {
	f.Helper()
	drifts, err := f.Store.Counts.Verify(f.Context())
	if err != nil || len(drifts) > 0 {
		f.Errorf("drift: %v %v", drifts, err)
	}
}

// A user at his cap does not block others, however many of his jobs
// are in front.
func TestUserCapIsHisAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Override(api.Overrides{Limits: api.Limits{UserMaxRunning: new(int64(2))}, Users: map[string]api.Limits{"vip": {UserMaxRunning: new(int64(4))}}})
	for _, user := range []string{"greedy", "greedy", "greedy", "greedy", "greedy", "bob", "", "", "", "vip", "vip", "vip", "vip", "vip"} {
		f.Submit(enginetest.Request(user))
	}
	got := byUser(f.Take(100))
	if got["greedy"] != 2 || got["bob"] != 1 || got[""] != 3 || got["vip"] != 4 {
		t.Errorf("running by user: %v", got)
	}
	if more := f.Take(100); len(more) != 0 {
		t.Errorf("%d jobs over the caps", len(more))
	}
	f.noDrift()
}

// Jobs that were stored before their user had a cap lie in a shared lane; they
// come under it all the same.
func TestCapReachesJobsStoredBefore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for range 5 {
		f.Submit(enginetest.Request("bob"), enginetest.Request("ann"))
	}
	before := f.Take(3)
	f.Override(api.Overrides{Users: map[string]api.Limits{"bob": {MaxRunning: new(int64(2))}}})
	got := byUser(append(before, f.Take(100)...))
	if got["bob"] != 2 || got["ann"] != 5 {
		t.Errorf("running by user: %v", got)
	}
	f.noDrift()
	// and back: without the cap his jobs are in the shared lane again
	f.Override(api.Overrides{})
	if rest := byUser(f.Take(100)); rest["bob"] != 3 {
		t.Errorf("once the cap is gone: %v", rest)
	}
	f.noDrift()
}

func TestCapsOfTenantQueueAndInstallation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(4)), MaxActive: new(int64(6))}})
	if _, err := f.D.PutQueue(t.Context(), f.Tenant, "default", api.QueueRequest{MaxRunning: new(int64(3)), MaxActive: new(int64(5))}); err != nil {
		t.Fatal(err)
	}
	var codes []problem.Code
	for range 6 {
		if refused := f.D.Submit(t.Context(), []submits.Call{f.Call(enginetest.Request(""))})[0].Problem; refused != nil {
			codes = append(codes, refused.Code)
		}
	}
	if len(codes) != 1 || codes[0] != problem.QueueFull {
		t.Errorf("refused: %v, want one queue_full", codes)
	}
	if got := len(f.Take(100)); got != 3 {
		t.Errorf("%d run, want the queue's 3", got)
	}
	use, err := f.D.Cached.CapUse(t.Context(), f.Tenant, "")
	if err != nil {
		t.Fatal(err)
	}
	want := []api.CapUse{{Scope: "tenant", Kind: "active", Limit: 6, Used: 5}, {Scope: "tenant", Kind: "running", Limit: 4, Used: 3}}
	if len(use) != 2 || use[0] != want[0] || use[1] != want[1] {
		t.Errorf("use = %+v, want %+v", use, want)
	}
	f.noDrift()
}

func TestInstallationCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.D = f.NewCoreUnder(f.Store, 3)
	other := f.NewTenant()
	for _, owner := range []tenant.ID{f.Tenant, other} {
		call := f.Call(enginetest.Request(""), enginetest.Request(""), enginetest.Request(""))
		call.Tenant = owner
		f.Accepted(f.D.Submit(t.Context(), []submits.Call{call})...)
	}
	call := f.ClaimCall()
	call.Owner = tenant.Platform
	first := f.Claim(call)
	if len(first) != 3 || len(f.Claim(call)) != 0 {
		t.Fatalf("%d run, want 3 of all tenants", len(first))
	}
	f.D.End(t.Context(), []jobs.Ending{{Lease: first[0].Lease(), Kind: api.KindComplete}})
	if got := len(f.Claim(call)); got != 1 {
		t.Errorf("after a finish %d more run, want 1", got)
	}
	f.noDrift()
}

// Room that a finish makes wakes a claim that waits for it.
func TestFinishWakesClaimUnderCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(1))}})
	f.Submit(enginetest.Request(""), enginetest.Request(""))
	first := f.Take(1)
	call := f.ClaimCall()
	call.Wait = 20 * time.Second
	waiting := f.GoClaim(t.Context(), call)
	celltest.Eventually(t, "the claim to park", func() bool { return f.D.ParkedClaims() == 1 })
	f.D.End(t.Context(), []jobs.Ending{{Lease: first[0].Lease(), Kind: api.KindComplete}})
	if got := <-waiting; got.Err != nil || len(got.Jobs) != 1 {
		t.Errorf("the waiting claim got %d jobs: %v", len(got.Jobs), got.Err)
	}
}
