package queue_test

import (
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
)

// modelCapLimit is never reached: what is refused is shown elsewhere. Here every
// count must be right after every step, whichever jobs are counted.
const modelCapLimit = 1_000_000

func capOn(owner tenant.ID, counter usage.Counter, name string) usage.Cap {
	return usage.Cap{CountKey: usage.CountKey{Tenant: owner, Counter: counter, Name: name}, Limit: modelCapLimit}
}

// activeCaps are some of the caps that a job can come under.
func (w *world) activeCaps(t *rapid.T, owner tenant.ID, name string, user *string) []usage.Cap {
	var caps []usage.Cap
	which := rapid.IntRange(0, 7).Draw(t, "active caps")
	if which&1 != 0 {
		caps = append(caps, capOn(owner, usage.ActiveTenant, ""))
	}
	if which&2 != 0 && user != nil {
		caps = append(caps, capOn(owner, usage.ActiveUser, *user))
	}
	if which&4 != 0 {
		caps = append(caps, capOn(owner, usage.ActiveQueue, name))
	}
	return caps
}

func (w *world) runningCaps(t *rapid.T, lane directory.Lane) []usage.Cap {
	var caps []usage.Cap
	which := rapid.IntRange(0, 15).Draw(t, "running caps")
	if which&1 != 0 {
		caps = append(caps, capOn(lane.Tenant, usage.RunningTenant, ""))
	}
	if which&2 != 0 {
		caps = append(caps, capOn(tenant.Platform, usage.RunningAll, ""))
	}
	if which&4 != 0 {
		caps = append(caps, capOn(lane.Tenant, usage.RunningQueue, lane.Queue))
	}
	if which&8 != 0 {
		caps = append(caps, capOn(lane.Tenant, usage.RunningType, usage.TypeName(lane.Queue, lane.Type)))
	}
	return caps
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
		if _, _, err := w.stores[1].Counts.PruneUsage(w.ctx, usage.CountKey{}); err != nil {
			t.Fatal(err)
		}
	}
}
