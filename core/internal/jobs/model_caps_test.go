package jobs_test

import (
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// modelCapLimit is never reached: what is refused is shown elsewhere. Here every
// count must be right after every step, whichever jobs are counted.
const modelCapLimit = 1_000_000

func capOn(owner tenant.ID, counter caps.Counter, name string) caps.Cap {
	return caps.Cap{CountKey: caps.CountKey{Tenant: owner, Counter: counter, Name: name}, Limit: modelCapLimit}
}

// activeCaps are some of the caps that a job can come under.
func (w *world) activeCaps(t *rapid.T, owner tenant.ID, name string, user *string) []caps.Cap {
	var list []caps.Cap
	which := rapid.IntRange(0, 7).Draw(t, "active caps")
	if which&1 != 0 {
		list = append(list, capOn(owner, caps.ActiveTenant, ""))
	}
	if which&2 != 0 && user != nil {
		list = append(list, capOn(owner, caps.ActiveUser, *user))
	}
	if which&4 != 0 {
		list = append(list, capOn(owner, caps.ActiveQueue, name))
	}
	return list
}

func (w *world) runningCaps(t *rapid.T, lane lanes.Lane) []caps.Cap {
	var list []caps.Cap
	which := rapid.IntRange(0, 15).Draw(t, "running caps")
	if which&1 != 0 {
		list = append(list, capOn(lane.Tenant, caps.RunningTenant, ""))
	}
	if which&2 != 0 {
		list = append(list, capOn(tenant.Platform, caps.RunningAll, ""))
	}
	if which&4 != 0 {
		list = append(list, capOn(lane.Tenant, caps.RunningQueue, lane.Queue))
	}
	if which&8 != 0 {
		list = append(list, capOn(lane.Tenant, caps.RunningType, caps.TypeName(lane.Queue, lane.Type)))
	}
	return list
}

// checkCounts recounts everything.
func (w *world) checkCounts(t *rapid.T) {
	drifts, err := w.stores[0].Counts.Verify(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, drift := range drifts {
		t.Fatalf("drift: %v", drift)
	}
	if w.steps%3 == 0 {
		if _, _, err := w.stores[1].Counts.PruneUsage(w.ctx, caps.CountKey{}); err != nil {
			t.Fatal(err)
		}
	}
}
