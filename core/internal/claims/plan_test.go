package claims

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// A queue name that very many tenants use does not keep platform workers from the jobs of a
// rare one that they ask for as well.
func TestNoQueueNameCrowdsOutAnother(t *testing.T) {
	t.Parallel()
	d := newPlanner()
	add := func(id lanes.ID, name string) tenant.ID {
		owner := uuid.New()
		d.cached.Lanes.Made(make([]lanes.Ask, 1), []lanes.Made{{Lane: lanes.Lane{ID: id, Key: lanes.NewKey(owner, name, "test", nil)}}})
		d.lists.Notify([]jobs.Ready{{Lane: id, Priority: 5, At: time.Now(), ID: uuid.New()}})
		return owner
	}
	for id := range lanes.ID(2 * tenantsPerClaim) {
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

// A statement has a few lists more than it wants jobs, and as many as it needs where the one before
// found few jobs in each list.
func TestListsOfAStatement(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before  listDensity
		n, want int
	}{
		{listDensity{}, 1, 1 + extraLists},
		{listDensity{}, 1000, listsPerClaim},
		{listDensity{scanned: 1, found: 1000}, 1000, listsPerClaim},
		{listDensity{scanned: 50, found: 100}, 300, 150 + extraLists},
		{listDensity{scanned: 50, found: 50}, 1000, mostLists},
		{listDensity{scanned: 50, found: 0}, 1, 50 + extraLists},
	} {
		if got := c.before.lists(c.n); got != c.want {
			t.Errorf("after %+v a statement for %d jobs has %d lists, want %d", c.before, c.n, got, c.want)
		}
	}
}

// newPlanner is one that knows nothing.
func newPlanner() *planner {
	cached := cache.New(nil, 0)
	return &planner{cached: cached, lists: scheduler.NewReadyLists(cached.Lanes.ByID)}
}
