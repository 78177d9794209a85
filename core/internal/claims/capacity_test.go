package claims_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Room that a finish makes is for all lanes under the cap, and not only for the one in
// which it was made: the owner of the slots would hold them for as long as he has jobs.
func TestCapacityIsForAllLanesUnderTheCap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Refresh()
	f.Override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(1))}})
	f.Submit(enginetest.In("a"), enginetest.In("a"), enginetest.In("a"))
	call := f.ClaimCall("a", "b")
	call.Max, call.Wait = 1, 10*time.Millisecond
	running := f.Claim(call)
	urgent := enginetest.In("b")
	urgent.Priority = new(9)
	f.Submit(urgent)
	if more := f.Claim(call); len(running) != 1 || len(more) != 0 {
		t.Fatalf("%d run and then %d, want 1 and 0", len(running), len(more))
	}
	f.End(running)
	if next := f.Claim(call); len(next) != 1 || next[0].Queue != "b" {
		t.Errorf("next comes %v, want the job of the highest priority", queuesOf(next))
	}
}

// The same for tenants under the installation's cap.
func TestCapacityOfTheInstallationIsForAllTenants(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.D = f.NewCoreUnder(f.Store, 1)
	f.Refresh()
	f.Submit(enginetest.In("a"), enginetest.In("a"), enginetest.In("a"), enginetest.In("a"))
	call := f.ClaimCall("a")
	call.Owner, call.Max, call.Wait = tenant.Platform, 1, 10*time.Millisecond
	running := f.Claim(call)
	greedy := f.Tenant
	f.Tenant = f.NewTenant()
	f.Refresh()
	f.Submit(enginetest.In("a"))
	if more := f.Claim(call); len(running) != 1 || len(more) != 0 {
		t.Fatalf("%d run and then %d, want 1 and 0", len(running), len(more))
	}
	for range 3 { // the greedy one may be next once
		f.End(running)
		if running = f.Claim(call); len(running) == 1 && running[0].TenantID != greedy {
			return
		}
		if more := f.Claim(call); len(more) != 0 {
			t.Fatalf("%d run over the cap", len(more))
		}
	}
	t.Error("a tenant with one job waits after all of another one's")
}

func queuesOf(jobs []claim.Job) (names []string) {
	for i := range jobs {
		names = append(names, jobs[i].Queue)
	}
	return names
}
