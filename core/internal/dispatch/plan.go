package dispatch

import (
	"cmp"
	"slices"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// linesPerClaim is how many lines one statement looks at.
const linesPerClaim = 50

// plan is a claim as it was made of what is believed.
type plan struct {
	claim queue.Claim
	// lines are those that it looks at, as they were believed to be.
	lines map[lineKey]line
	// weights are those of its tenants.
	weights map[tenant.ID]int
}

// candidate is a lane that may be claimed from, with its lines in which jobs are
// thought to wait.
type candidate struct {
	lane  queue.ClaimLane
	key   queue.QueueKey
	lines []line
}

// plan makes a claim of n jobs from the lanes that the filter lets through, but for
// those of some tenants. It has no lanes where no job is thought to wait.
func (d *Dispatcher) plan(dealer *fair, filter *Filter, n int, skip map[tenant.ID]bool) plan {
	made := plan{lines: map[lineKey]line{}, weights: map[tenant.ID]int{}}
	byTenant := map[tenant.ID][]candidate{}
	var wants []want
	for _, lane := range d.lanes.Claimable(filter, d.lines.isReady, d.underCaps) {
		if skip[lane.Tenant] || skip[tenant.Platform] && d.maxRunning != nil {
			continue
		}
		one := candidate{lane: lane, lines: d.lines.ready(lane.ID, nil)}
		if known, ok := d.lanes.ByID(lane.ID); ok {
			one.key = queue.QueueKey{Tenant: known.Tenant, Name: known.Queue}
		}
		if byTenant[lane.Tenant] == nil {
			made.weights[lane.Tenant] = d.limits.weight(lane.Tenant)
			wants = append(wants, want{lane.Tenant, made.weights[lane.Tenant]})
		}
		byTenant[lane.Tenant] = append(byTenant[lane.Tenant], one)
	}
	used := map[queue.LaneID]bool{}
	turn := d.turn.Add(1)
	var room Room
	if filter.Room != nil {
		room = filter.Room()
	}
	for _, portion := range dealer.deal(wants, n) {
		candidates := byTenant[portion.tenant]
		for _, share := range shares(candidates, portion.most, room, turn) {
			queued := queue.Share{Most: share.most}
			for _, l := range share.lines {
				used[l.Lane] = true
				made.lines[lineKey{l.Lane, l.Priority}] = l
				queued.Lines = append(queued.Lines, l.Line)
			}
			made.claim.Shares = append(made.claim.Shares, queued)
		}
		for _, one := range candidates {
			if used[one.lane.ID] {
				made.claim.Lanes = append(made.claim.Lanes, one.lane)
			}
		}
		if len(made.lines) >= linesPerClaim {
			break
		}
	}
	return made
}

// share is what one statement takes at most from some lines, in their order.
type share struct {
	most  int
	lines []line
}

// shares puts a tenant's lines in order, high priorities first; among equals another
// one is first each turn, so that none is always last. Where queues have room for so
// many jobs each, each has a share of its own.
func shares(candidates []candidate, most int, room Room, turn uint64) []share {
	if room == nil {
		return []share{{most, inOrder(candidates, turn)}}
	}
	byQueue := map[queue.QueueKey][]candidate{}
	var keys []queue.QueueKey
	for _, one := range candidates {
		if byQueue[one.key] == nil {
			keys = append(keys, one.key)
		}
		byQueue[one.key] = append(byQueue[one.key], one)
	}
	start := int(turn % uint64(len(keys))) //nolint:gosec // below len
	var made []share
	for i := range keys {
		key := keys[(start+i)%len(keys)]
		if n := min(most, room.Of(key)); n > 0 {
			room.Take(key, n)
			made = append(made, share{n, inOrder(byQueue[key], turn)})
			most -= n
		}
	}
	return made
}

func inOrder(candidates []candidate, turn uint64) []line {
	start := int(turn % uint64(len(candidates))) //nolint:gosec // below len
	var lines []line
	for i := range candidates {
		lines = append(lines, candidates[(start+i)%len(candidates)].lines...)
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(b.Priority, a.Priority) })
	return lines[:min(len(lines), linesPerClaim)]
}

func sortLines(keys []lineKey) {
	slices.SortFunc(keys, func(a, b lineKey) int {
		return cmp.Or(cmp.Compare(a.lane, b.lane), cmp.Compare(a.priority, b.priority))
	})
}
