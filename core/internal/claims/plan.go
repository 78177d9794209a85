package claims

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// listsPerClaim bounds the lists of a statement, which has extraLists more than it wants jobs: most
	// lists that are ready do have jobs. It has more, mostLists at most, where the statement before
	// found few jobs in each list.
	listsPerClaim = 50
	extraLists    = 10
	mostLists     = 400
	// tenantsPerClaim bounds the tenants of one claim, where more have jobs; the next claim starts
	// with others.
	tenantsPerClaim = 2 * scheduler.MaxQuotas
)

// planner plans claims in memory.
type planner struct {
	cached *cache.Memory
	lists  *scheduler.ReadyLists
	// times are how long attempts run; nil where shares are of jobs.
	times *scheduler.RunTimes
	// offset counts claims; it rotates equal lists.
	offset atomic.Uint64
}

// plan is a claim as planned from the ready lists.
type plan struct {
	claim claim.Request
	// lists are those that it scans, with their state at the plan.
	lists []scheduler.Planned
	// demands are those of its tenants.
	demands []scheduler.Demand
}

// weight is the weight of one of the claim's tenants.
func (p *plan) weight(owner tenant.ID) int {
	for i := range p.demands {
		if p.demands[i].Tenant == owner {
			return p.demands[i].Weight
		}
	}
	return 1
}

// plan makes a claim of n jobs from about so many ready lists of the filter's lanes, without those
// of the tenants in skip. It has no lanes where no list is ready.
func (p *planner) plan(drr *scheduler.DRR, filter *scheduler.Filter, n, lists int, skip map[tenant.ID]bool) plan {
	if skip[tenant.Platform] && p.cached.CapsAll() {
		return plan{}
	}
	offset := p.offset.Add(1)
	queues := p.wanting(filter, n, skip)
	made := plan{demands: queues.demands}
	p.cached.Limits.SetWeights(made.demands)
	if len(made.demands) > 1 {
		p.times.Costs(made.demands, queues.of)
	}
	var capacity scheduler.Capacity
	if filter.Capacity != nil {
		capacity = filter.Capacity()
	}
	var settings claim.Lane
	var settingsOf *lanes.Lane
	for _, quota := range drr.Allocate(made.demands, n) {
		// A tenant's share of the lists is its share of the jobs, and one more list.
		part := min(lists*quota.Most/n+1, lists-len(made.lists))
		found := p.lists.ReadyIn(queues.of(quota.Tenant), filter, offset, part)
		if made.lists == nil {
			made.lists = make([]scheduler.Planned, 0, min(lists, listsPerClaim))
			made.claim.Lanes = make([]claim.Lane, 0, min(lists, listsPerClaim))
		}
		for _, share := range shares(found, quota.Most, capacity, offset) {
			queued := claim.Share{Most: share.most, Lists: make([]claim.ReadyList, len(share.lists))}
			for i := range share.lists {
				list := &share.lists[i]
				queued.Lists[i] = list.ReadyList
				if made.has(list.Lane) {
					continue
				}
				// Lanes that differ in their tags are under the same limits.
				if settingsOf == nil || settingsOf.InQueue() != list.In.InQueue() || settingsOf.Type != list.In.Type || settingsOf.User != list.In.User {
					settings, settingsOf = p.claimLane(list.In), list.In
				}
				settings.ID, settings.Budgeted = list.Lane, list.In.Budgeted
				made.claim.Lanes = append(made.claim.Lanes, settings)
			}
			made.lists = append(made.lists, share.lists...)
			made.claim.Shares = append(made.claim.Shares, queued)
		}
		if len(made.lists) >= lists {
			break
		}
	}
	return made
}

// has says whether a lane is in the claim already, with another priority.
func (p *plan) has(lane lanes.ID) bool {
	for i := range p.claim.Lanes {
		if p.claim.Lanes[i].ID == lane {
			return true
		}
	}
	return false
}

// claimLane is a lane with its settings for a claim.
func (p *planner) claimLane(lane *lanes.Lane) claim.Lane {
	settings := p.cached.Lanes.Settings(lane.Tenant, lane.Queue)
	made := claim.Lane{
		ID: lane.ID, Tenant: lane.Tenant, VisibilityTimeout: store.OrElse(settings.VisibilityTimeout, api.DefaultVisibilityTimeout),
	}
	p.cached.LimitLane(&made, *lane, settings)
	return made
}

// wantingQueues are the queues with ready lists for a claim, by tenant: those of demands[i] are
// queues[i].
type wantingQueues struct {
	demands []scheduler.Demand
	queues  [][]tenant.QueueKey
	// firsts are the first queues of the tenants; most tenants have one.
	firsts []tenant.QueueKey
}

func (w *wantingQueues) place(owner tenant.ID) int {
	return slices.IndexFunc(w.demands, func(one scheduler.Demand) bool { return one.Tenant == owner })
}

func (w *wantingQueues) of(owner tenant.ID) []tenant.QueueKey { return w.queues[w.place(owner)] }

func (w *wantingQueues) add(key tenant.QueueKey) {
	if place := w.place(key.Tenant); place >= 0 {
		w.queues[place] = append(w.queues[place], key)
		return
	}
	if w.demands == nil {
		w.demands = make([]scheduler.Demand, 0, tenantsPerClaim)
		w.queues = make([][]tenant.QueueKey, 0, tenantsPerClaim)
		w.firsts = make([]tenant.QueueKey, 0, tenantsPerClaim)
	}
	w.demands = append(w.demands, scheduler.Demand{Tenant: key.Tenant})
	w.firsts = append(w.firsts, key)
	last := len(w.firsts)
	w.queues = append(w.queues, w.firsts[last-1:last:last])
}

// wanting finds the queues with ready lists that the filter matches, of no more tenants than a
// claim of n jobs can serve.
func (p *planner) wanting(filter *scheduler.Filter, n int, skip map[tenant.ID]bool) wantingQueues {
	var found wantingQueues
	var capacity scheduler.Capacity
	if filter.Capacity != nil {
		capacity = filter.Capacity()
	}
	add := func(key tenant.QueueKey) {
		if skip[key.Tenant] || !p.cached.Lanes.Open(key, filter.Push) || capacity != nil && capacity.Of(key) <= 0 {
			return
		}
		found.add(key)
	}
	if filter.Owner != tenant.Platform && !filter.Push {
		for _, name := range unique(filter.Queues) {
			if key := (tenant.QueueKey{Tenant: filter.Owner, Name: name}); p.lists.HasReady(key, filter) {
				add(key)
			}
		}
		return found
	}
	// Each pass begins at a random offset, so that all of very many queues are visited in time.
	round := func(part int, window func(from uint64, n int) (some []tenant.QueueKey, all int)) {
		begin, all, before := rand.Uint64()>>1, part, len(found.demands) //nolint:gosec // spreads, guards nothing
		for seen := 0; seen < all && (all <= tenantsPerClaim || len(found.demands)-before < part); seen += part {
			var some []tenant.QueueKey
			some, all = window(begin+uint64(seen), min(all-seen, part))
			for _, key := range some {
				add(key)
			}
		}
	}
	// Of more tenants than one claim is divided among, one and a half times as many as can be
	// served are enough.
	enough := min(max(n+n/2, extraLists), tenantsPerClaim)
	if filter.Push {
		round(enough, func(from uint64, n int) ([]tenant.QueueKey, int) {
			some, all := p.cached.Lanes.PushQueues(from, n)
			return slices.DeleteFunc(some, func(key tenant.QueueKey) bool { return !p.lists.HasReady(key, filter) }), all
		})
		return found
	}
	names := unique(filter.Queues)
	for _, name := range names { // an equal part for each name, so that none starves
		round(max(enough/len(names), 1), func(from uint64, n int) ([]tenant.QueueKey, int) {
			return p.lists.QueuesOf(name, filter, from, n)
		})
	}
	return found
}

// unique gives names once each, in their order.
func unique(names []string) []string {
	if len(names) < 2 {
		return names
	}
	seen := make(map[string]bool, len(names))
	var once []string
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			once = append(once, name)
		}
	}
	return once
}

// share is the most jobs that one statement takes from some lists, in their order.
type share struct {
	most  int
	lists []scheduler.Planned
}

// shares divides a tenant's lists, which are in order. With capacity by queue, each queue has a
// share of its own.
func shares(found []scheduler.Planned, most int, capacity scheduler.Capacity, offset uint64) []share {
	if len(found) == 0 {
		return nil
	}
	if capacity == nil {
		return []share{{most, found}}
	}
	byQueue := map[tenant.QueueKey][]scheduler.Planned{}
	var keys []tenant.QueueKey
	for _, one := range found {
		key := one.In.InQueue()
		if byQueue[key] == nil {
			keys = append(keys, key)
		}
		byQueue[key] = append(byQueue[key], one)
	}
	start := int(offset % uint64(len(keys))) //nolint:gosec // below len
	var made []share
	for i := range keys {
		key := keys[(start+i)%len(keys)]
		if n := min(most, capacity.Of(key)); n > 0 {
			capacity.Take(key, n)
			made = append(made, share{n, byQueue[key]})
			most -= n
		}
	}
	return made
}
