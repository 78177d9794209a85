package dispatch

import (
	"container/list"
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// parkedMost is more claims than are ever parked in one core.
const parkedMost = 1 << 20

// parking is where claims wait for work. One job that becomes ready wakes one
// claim that can take it, the longest waiting first; a woken claim that leaves
// without having looked passes its wake-up on.
type parking struct {
	mu     sync.Mutex
	parked int
	// arrived numbers the claims.
	arrived uint64
	// asleep are those that can be woken, by what they ask for, each list in the order in
	// which they came. One that asks for several queues is in several.
	asleep map[spot]*list.List
}

// spot is a queue as claims ask for it: a tenant's, or under tenant.Platform all of that
// name. Claims for queues in push mode have one spot for all.
type spot struct {
	owner tenant.ID
	name  string
	push  bool
}

func (f *Filter) spots() []spot {
	if f.Push {
		return []spot{{push: true}}
	}
	spots := make([]spot, len(f.Queues))
	for i, name := range f.Queues {
		spots[i] = spot{owner: f.Owner, name: name}
	}
	return spots
}

// waiter is one parked claim.
type waiter struct {
	filter *Filter
	number uint64
	// woken gets the lane in which there is work. It holds one value, so whoever
	// wakes never waits.
	woken chan directory.LaneID
	// at is where it sleeps, nil while it is awake.
	at map[spot]*list.Element
}

// park registers a claim. It must be done before the claim looks for jobs, or one
// that comes between the look and the wait would wake nobody.
func (p *parking) park(filter *Filter) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrived++
	p.parked++
	w := &waiter{filter: filter, number: p.arrived, woken: make(chan directory.LaneID, 1)}
	p.sleep(w)
	return w
}

// again is called by a claim that has taken its wake-up: it can be woken once more, even
// while it looks.
func (p *parking) again(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.at == nil {
		p.sleep(w)
	}
}

// sleep puts the claim in its place: at the end, or where it stood before.
func (p *parking) sleep(w *waiter) {
	w.at = map[spot]*list.Element{}
	for _, s := range w.filter.spots() {
		if w.at[s] != nil {
			continue // named twice
		}
		line := p.asleep[s]
		if line == nil {
			if p.asleep == nil {
				p.asleep = map[spot]*list.List{}
			}
			line = list.New()
			p.asleep[s] = line
		}
		w.at[s] = insert(line, w)
	}
}

// insert looks from the end that is nearer: a new claim is the last one, one that was woken
// had waited long.
func insert(line *list.List, w *waiter) *list.Element {
	if last := line.Back(); last == nil || waiterAt(last).number < w.number {
		return line.PushBack(w)
	}
	one := line.Front()
	for waiterAt(one).number < w.number {
		one = one.Next()
	}
	return line.InsertBefore(w, one)
}

func waiterAt(one *list.Element) *waiter {
	w, _ := one.Value.(*waiter) // there is nothing else in these lists
	return w
}

// rise takes the claim from where it sleeps.
func (p *parking) rise(w *waiter) {
	for s, one := range w.at {
		line := p.asleep[s]
		if line.Remove(one); line.Len() == 0 {
			delete(p.asleep, s)
		}
	}
	w.at = nil
}

// leave takes the claim out. It gives the lane of a wake-up that was not looked at.
func (p *parking) leave(w *waiter) (unused directory.LaneID, pending bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked--
	p.rise(w)
	select {
	case unused = <-w.woken:
		return unused, true
	default:
		return 0, false
	}
}

// wake wakes at most count claims that can take from lane, which is of a queue in
// push mode or not, and says how many. It goes over those alone that ask for the lane's
// queue and are asleep.
func (p *parking) wake(lane directory.Lane, push bool, count int) (woken int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, platform := p.first(spot{owner: lane.Tenant, name: lane.Queue}), p.first(spot{owner: tenant.Platform, name: lane.Queue})
	if push {
		own, platform = p.first(spot{push: true}), nil
	}
	for woken < count && (own != nil || platform != nil) {
		next := &own
		if own == nil || platform != nil && waiterAt(platform).number < waiterAt(own).number {
			next = &platform
		}
		w := waiterAt(*next)
		*next = (*next).Next()
		if !w.filter.serves(lane) {
			continue
		}
		p.rise(w)
		select {
		case w.woken <- lane.ID:
			woken++
		default: // it has not taken the last one yet
		}
	}
	return woken
}

func (p *parking) first(s spot) *list.Element {
	if line := p.asleep[s]; line != nil {
		return line.Front()
	}
	return nil
}

// count is how many claims are parked.
func (p *parking) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parked
}
