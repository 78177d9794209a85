package dispatch

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// A queue name that very many tenants use does not keep platform workers from the jobs of a
// rare one that they ask for as well.
func TestNoQueueNameCrowdsOutAnother(t *testing.T) {
	t.Parallel()
	d := &Dispatcher{lanes: cache.NewLanes(nil), limits: cache.NewLimits(nil)}
	d.lists = scheduler.NewReadyLists(d.lanes.ByID)
	add := func(id directory.LaneID, name string) tenant.ID {
		owner := uuid.New()
		d.lanes.Made(make([]directory.LaneAsk, 1), []directory.MadeLane{{Lane: directory.Lane{ID: id, LaneKey: directory.NewLaneKey(owner, name, "test", nil)}}})
		d.lists.Notify([]queue.Ready{{Lane: id, Priority: 5, At: time.Now(), ID: uuid.New()}})
		return owner
	}
	for id := range directory.LaneID(2 * tenantsPerClaim) {
		add(id+1, "common")
	}
	rare := add(2*tenantsPerClaim+1, "rare")
	filter := &scheduler.Filter{Owner: tenant.Platform, Queues: []string{"common", "rare"}}
	for _, n := range []int{1, 10, 1000} {
		drr := &scheduler.DRR{}
		planned := func() bool {
			made := d.plan(drr, filter, n, listsPerClaim, nil)
			found := false
			for _, lane := range made.claim.Lanes {
				drr.Charge(lane.Tenant, 1, 1)
				found = found || lane.Tenant == rare
			}
			return found
		}
		tries := 1
		for ; !planned(); tries++ {
			if tries == 1000 {
				t.Fatalf("claims of %d: the rare queue is in none of 1,000", n)
			}
		}
		t.Logf("claims of %d: the rare queue is in number %d", n, tries)
	}
}
