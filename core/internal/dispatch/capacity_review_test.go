package dispatch_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Room that a finish makes is for all lanes under the cap, and not only for the one in
// which it was made: the owner of the slots would hold them for as long as he has jobs.
func TestCapacityIsForAllLanesUnderTheCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.refresh()
	f.override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(1))}})
	f.submit(in("a"), in("a"), in("a"))
	call := f.claimCall("a", "b")
	call.Max, call.Wait = 1, 10*time.Millisecond
	running := f.claim(call)
	urgent := in("b")
	urgent.Priority = new(9)
	f.submit(urgent)
	if more := f.claim(call); len(running) != 1 || len(more) != 0 {
		t.Fatalf("%d run and then %d, want 1 and 0", len(running), len(more))
	}
	f.end(running)
	if next := f.claim(call); len(next) != 1 || next[0].Queue != "b" {
		t.Errorf("next comes %v, want the job of the highest priority", queuesOf(next))
	}
}

// The same for tenants under the installation's cap.
func TestCapacityOfTheInstallationIsForAllTenants(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.d = f.newCoreUnder(f.store, 1)
	f.refresh()
	f.submit(in("a"), in("a"), in("a"), in("a"))
	call := f.claimCall("a")
	call.Owner, call.Max, call.Wait = tenant.Platform, 1, 10*time.Millisecond
	running := f.claim(call)
	greedy := f.tenant
	f.tenant = f.newTenant()
	f.refresh()
	f.submit(in("a"))
	if more := f.claim(call); len(running) != 1 || len(more) != 0 {
		t.Fatalf("%d run and then %d, want 1 and 0", len(running), len(more))
	}
	for range 3 { // the greedy one may be next once
		f.end(running)
		if running = f.claim(call); len(running) == 1 && running[0].TenantID != greedy {
			return
		}
		if more := f.claim(call); len(more) != 0 {
			t.Fatalf("%d run over the cap", len(more))
		}
	}
	t.Error("a tenant with one job waits after all of another one's")
}

func (f *fixture) end(jobs []claim.Job) {
	f.Helper()
	for _, ended := range f.d.End(f.Context(), endings(jobs)) {
		if ended.Err != nil {
			f.Fatal(ended.Err)
		}
	}
}

func endings(found []claim.Job) []jobs.Ending {
	made := make([]jobs.Ending, len(found))
	for i := range found {
		made[i] = jobs.Ending{Lease: found[i].Lease(), Kind: api.KindComplete}
	}
	return made
}

func queuesOf(jobs []claim.Job) (names []string) {
	for i := range jobs {
		names = append(names, jobs[i].Queue)
	}
	return names
}
