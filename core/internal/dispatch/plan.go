package dispatch

import (
	"math/rand/v2"
	"slices"

	"github.com/forgequeue/forgequeue/core/internal/scheduler"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// linesPerClaim is how many lines one statement looks at, and spareLines how many more than
	// it wants jobs the first one of a claim: what is believed is mostly so.
	linesPerClaim = 50
	spareLines    = 10
	// tenantsPerClaim is how many tenants one deal is among, where more have jobs for the
	// claim: others are the first of the next one's.
	tenantsPerClaim = 2 * scheduler.MaxQuotas
)

// plan is a claim as it was made of what is believed.
type plan struct {
	claim queue.Claim
	// lines are those that it looks at, as they were believed to be.
	lines map[scheduler.ListKey]scheduler.Planned
	// weights are those of its tenants.
	weights map[tenant.ID]int
}

// plan makes a claim of n jobs from about so many lines of the lanes that the filter lets
// through, but for those of some tenants. It has no lanes where no job is thought to wait.
func (d *Dispatcher) plan(dealer *scheduler.DRR, filter *scheduler.Filter, n, lines int, skip map[tenant.ID]bool) plan {
	if skip[tenant.Platform] && d.maxRunning != nil {
		return plan{}
	}
	turn := d.turn.Add(1)
	queues := d.wanting(filter, skip)
	made := plan{lines: make(map[scheduler.ListKey]scheduler.Planned, lines), weights: make(map[tenant.ID]int, len(queues.order))}
	wants := make([]scheduler.Demand, 0, len(queues.order))
	for _, owner := range queues.order {
		made.weights[owner] = d.limits.weight(owner)
		wants = append(wants, scheduler.Demand{Tenant: owner, Weight: made.weights[owner]})
	}
	used := make(map[directory.LaneID]bool, lines)
	var room scheduler.Capacity
	if filter.Capacity != nil {
		room = filter.Capacity()
	}
	var like queue.ClaimLane
	var liked *scheduler.Planned
	for _, portion := range dealer.Deal(wants, n) {
		found := d.ofKnownLanes(d.lines.ReadyIn(queues.of[portion.Tenant], filter, turn, lines))
		for _, share := range shares(found, portion.Most, room, turn) {
			queued := queue.Share{Most: share.most}
			for _, l := range share.lines {
				made.lines[l.Key()] = l
				queued.Lists = append(queued.Lists, l.ReadyList)
				if used[l.Lane] {
					continue
				}
				used[l.Lane] = true
				// Lanes of a queue that differ in their tags come under the same limits.
				if liked == nil || liked.In.InQueue() != l.In.InQueue() || liked.In.User != l.In.User {
					like, liked = d.claimLane(l.In), &l
				}
				like.ID = l.Lane
				made.claim.Lanes = append(made.claim.Lanes, like)
			}
			made.claim.Shares = append(made.claim.Shares, queued)
		}
		if len(made.lines) >= lines {
			break
		}
	}
	return made
}

// ofKnownLanes leaves out lines of lanes that are not known any more, and forgets them:
// what limits their claims is not known either.
func (d *Dispatcher) ofKnownLanes(found []scheduler.Planned) []scheduler.Planned {
	var gone []directory.LaneID
	found = slices.DeleteFunc(found, func(l scheduler.Planned) bool {
		_, known := d.lanes.ByID(l.Lane)
		if !known {
			gone = append(gone, l.Lane)
		}
		return !known
	})
	d.lines.Forget(gone)
	return found
}

// claimLane is a lane with all that a claim must know of it.
func (d *Dispatcher) claimLane(lane directory.Lane) queue.ClaimLane {
	settings := d.lanes.Settings(lane.Tenant, lane.Queue)
	made := queue.ClaimLane{
		ID: lane.ID, Tenant: lane.Tenant, VisibilityTimeout: null.Or(settings.VisibilityTimeout, api.DefaultVisibilityTimeout),
	}
	d.underCaps(&made, lane, settings)
	return made
}

// wantingQueues are the queues with jobs for a claim, by tenant.
type wantingQueues struct {
	order []tenant.ID
	of    map[tenant.ID][]tenant.QueueKey
}

// wanting finds the queues in which jobs are thought to wait that the filter lets through,
// of no more tenants than a claim is for.
func (d *Dispatcher) wanting(filter *scheduler.Filter, skip map[tenant.ID]bool) wantingQueues {
	found := wantingQueues{of: map[tenant.ID][]tenant.QueueKey{}}
	var room scheduler.Capacity
	if filter.Capacity != nil {
		room = filter.Capacity()
	}
	add := func(key tenant.QueueKey) {
		if skip[key.Tenant] || !d.lanes.open(key, filter.Push) || room != nil && room.Of(key) <= 0 {
			return
		}
		if found.of[key.Tenant] == nil {
			found.order = append(found.order, key.Tenant)
		}
		found.of[key.Tenant] = append(found.of[key.Tenant], key)
	}
	if filter.Owner != tenant.Platform && !filter.Push {
		for _, name := range unique(filter.Queues) {
			if key := (tenant.QueueKey{Tenant: filter.Owner, Name: name}); d.lines.HasReady(key, filter) {
				add(key)
			}
		}
		return found
	}
	// Each look begins somewhere else, so that all of very many have their turn.
	round := func(window func(from uint64, n int) (some []tenant.QueueKey, all int)) {
		begin := rand.Uint64() >> 1 //nolint:gosec // spreads, guards nothing
		for seen, all := 0, tenantsPerClaim; seen < all && len(found.order) < tenantsPerClaim; seen += tenantsPerClaim {
			var some []tenant.QueueKey
			some, all = window(begin+uint64(seen), min(all-seen, tenantsPerClaim))
			for _, key := range some {
				add(key)
			}
		}
	}
	if filter.Push {
		round(func(from uint64, n int) ([]tenant.QueueKey, int) {
			some, all := d.lanes.pushQueues(from, n)
			return slices.DeleteFunc(some, func(key tenant.QueueKey) bool { return !d.lines.HasReady(key, filter) }), all
		})
		return found
	}
	for _, name := range unique(filter.Queues) {
		round(func(from uint64, n int) ([]tenant.QueueKey, int) { return d.lines.QueuesOf(name, filter, from, n) })
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

// share is what one statement takes at most from some lines, in their order.
type share struct {
	most  int
	lines []scheduler.Planned
}

// shares parts a tenant's lines, which are in order. Where queues have room for so
// many jobs each, each has a share of its own.
func shares(found []scheduler.Planned, most int, room scheduler.Capacity, turn uint64) []share {
	if len(found) == 0 {
		return nil
	}
	if room == nil {
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
	start := int(turn % uint64(len(keys))) //nolint:gosec // below len
	var made []share
	for i := range keys {
		key := keys[(start+i)%len(keys)]
		if n := min(most, room.Of(key)); n > 0 {
			room.Take(key, n)
			made = append(made, share{n, byQueue[key]})
			most -= n
		}
	}
	return made
}
