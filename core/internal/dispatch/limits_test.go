package dispatch_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// override sets limits of the fixture's tenant, as another core would.
func (f *fixture) override(overrides api.Overrides) {
	f.Helper()
	if _, err := f.store.Tenants.Patch(f.Context(), f.tenant, api.TenantPatch{Overrides: &overrides}); err != nil {
		f.Fatal(err)
	}
	if err := f.d.Refresh(f.Context()); err != nil {
		f.Fatal(err)
	}
}

func request(user string) api.SubmitRequest {
	r := api.SubmitRequest{Type: "test"}
	if user != "" {
		r.User = &user
	}
	return r
}

// take claims up to n jobs.
func (f *fixture) take(n int) []claim.Job {
	f.Helper()
	call := f.claimCall()
	call.Max = n
	return f.claim(call)
}

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
	drifts, err := f.store.Counts.Verify(f.Context())
	if err != nil || len(drifts) > 0 {
		f.Errorf("drift: %v %v", drifts, err)
	}
}

// A user at his cap does not block others, however many of his jobs
// are in front.
func TestUserCapIsHisAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.override(api.Overrides{Limits: api.Limits{UserMaxRunning: new(int64(2))}, Users: map[string]api.Limits{"vip": {UserMaxRunning: new(int64(4))}}})
	for _, user := range []string{"greedy", "greedy", "greedy", "greedy", "greedy", "bob", "", "", "", "vip", "vip", "vip", "vip", "vip"} {
		f.submit(request(user))
	}
	got := byUser(f.take(100))
	if got["greedy"] != 2 || got["bob"] != 1 || got[""] != 3 || got["vip"] != 4 {
		t.Errorf("running by user: %v", got)
	}
	if more := f.take(100); len(more) != 0 {
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
		f.submit(request("bob"), request("ann"))
	}
	before := f.take(3)
	f.override(api.Overrides{Users: map[string]api.Limits{"bob": {MaxRunning: new(int64(2))}}})
	got := byUser(append(before, f.take(100)...))
	if got["bob"] != 2 || got["ann"] != 5 {
		t.Errorf("running by user: %v", got)
	}
	f.noDrift()
	// and back: without the cap his jobs are in the shared lane again
	f.override(api.Overrides{})
	if rest := byUser(f.take(100)); rest["bob"] != 3 {
		t.Errorf("once the cap is gone: %v", rest)
	}
	f.noDrift()
}

func TestCapsOfTenantQueueAndInstallation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(4)), MaxActive: new(int64(6))}})
	if _, err := f.d.PutQueue(t.Context(), f.tenant, "default", api.QueueRequest{MaxRunning: new(int64(3)), MaxActive: new(int64(5))}); err != nil {
		t.Fatal(err)
	}
	var codes []problem.Code
	for range 6 {
		if refused := f.d.Submit(t.Context(), []dispatch.SubmitCall{f.call(request(""))})[0].Problem; refused != nil {
			codes = append(codes, refused.Code)
		}
	}
	if len(codes) != 1 || codes[0] != problem.QueueFull {
		t.Errorf("refused: %v, want one queue_full", codes)
	}
	if got := len(f.take(100)); got != 3 {
		t.Errorf("%d run, want the queue's 3", got)
	}
	use, err := f.d.CapUse(t.Context(), f.tenant, "")
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
	f.d = f.newCoreUnder(f.store, 3)
	other := f.newTenant()
	for _, owner := range []tenant.ID{f.tenant, other} {
		call := f.call(request(""), request(""), request(""))
		call.Tenant = owner
		f.accepted(f.d.Submit(t.Context(), []dispatch.SubmitCall{call})...)
	}
	call := f.claimCall()
	call.Owner = tenant.Platform
	first := f.claim(call)
	if len(first) != 3 || len(f.claim(call)) != 0 {
		t.Fatalf("%d run, want 3 of all tenants", len(first))
	}
	f.d.End(t.Context(), []jobs.Ending{{Lease: first[0].Lease(), Kind: api.KindComplete}})
	if got := len(f.claim(call)); got != 1 {
		t.Errorf("after a finish %d more run, want 1", got)
	}
	f.noDrift()
}

// Room that a finish makes wakes a claim that waits for it.
func TestFinishWakesClaimUnderCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(1))}})
	f.submit(request(""), request(""))
	first := f.take(1)
	call := f.claimCall()
	call.Wait = 20 * time.Second
	waiting := f.goClaim(t.Context(), call)
	celltest.Eventually(t, "the claim to park", func() bool { return f.d.ParkedClaims() == 1 })
	f.d.End(t.Context(), []jobs.Ending{{Lease: first[0].Lease(), Kind: api.KindComplete}})
	if got := <-waiting; got.err != nil || len(got.jobs) != 1 {
		t.Errorf("the waiting claim got %d jobs: %v", len(got.jobs), got.err)
	}
}
