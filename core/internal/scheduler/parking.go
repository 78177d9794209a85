package scheduler

import (
	"container/list"
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// MaxParked is more claims than are ever parked in one core.
const MaxParked = 1 << 20

// Parking is where claims wait for work. One job that becomes ready wakes one
// claim that can take it, the longest waiting first; a woken claim that leaves
// without having looked passes its wake-up on.
type Parking struct {
	mu     sync.Mutex
	parked int
	// arrived numbers the claims.
	arrived uint64
	// sleeping are those that can be woken, by what they ask for, each list in the order in
	// which they came. One that asks for several queues is in several.
	sleeping map[queueRef]*list.List
}

// queueRef is a queue as claims ask for it: a tenant's, or under tenant.Platform all of that
// name. Claims for queues in push mode have one spot for all.
type queueRef struct {
	owner tenant.ID
	name  string
	push  bool
}

func (f *Filter) refs() []queueRef {
	if f.Push {
		return []queueRef{{push: true}}
	}
	spots := make([]queueRef, len(f.Queues))
	for i, name := range f.Queues {
		spots[i] = queueRef{owner: f.Owner, name: name}
	}
	return spots
}

// Waiter is one parked claim.
type Waiter struct {
	filter *Filter
	number uint64
	// Woken gets the lane in which there is work. It holds one value, so whoever
	// wakes never waits.
	Woken chan directory.LaneID
	// at is where it sleeps, nil while it is awake.
	at map[queueRef]*list.Element
}

// Park registers a claim. It must be done before the claim looks for jobs, or one
// that comes between the look and the wait would wake nobody.
func (p *Parking) Park(filter *Filter) *Waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrived++
	p.parked++
	w := &Waiter{filter: filter, number: p.arrived, Woken: make(chan directory.LaneID, 1)}
	p.sleep(w)
	return w
}

// Rearm is called by a claim that has taken its wake-up: it can be woken once more, even
// while it looks.
func (p *Parking) Rearm(w *Waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.at == nil {
		p.sleep(w)
	}
}

// sleep puts the claim in its place: at the end, or where it stood before.
func (p *Parking) sleep(w *Waiter) {
	w.at = map[queueRef]*list.Element{}
	for _, s := range w.filter.refs() {
		if w.at[s] != nil {
			continue // named twice
		}
		sleepers := p.sleeping[s]
		if sleepers == nil {
			if p.sleeping == nil {
				p.sleeping = map[queueRef]*list.List{}
			}
			sleepers = list.New()
			p.sleeping[s] = sleepers
		}
		w.at[s] = insert(sleepers, w)
	}
}

// insert looks from the end that is nearer: a new claim is the last one, one that was woken
// had waited long.
func insert(sleepers *list.List, w *Waiter) *list.Element {
	if last := sleepers.Back(); last == nil || waiterAt(last).number < w.number {
		return sleepers.PushBack(w)
	}
	one := sleepers.Front()
	for waiterAt(one).number < w.number {
		one = one.Next()
	}
	return sleepers.InsertBefore(w, one)
}

func waiterAt(one *list.Element) *Waiter {
	w, _ := one.Value.(*Waiter) // there is nothing else in these lists
	return w
}

// remove takes the claim from where it sleeps.
func (p *Parking) remove(w *Waiter) {
	for s, one := range w.at {
		sleepers := p.sleeping[s]
		if sleepers.Remove(one); sleepers.Len() == 0 {
			delete(p.sleeping, s)
		}
	}
	w.at = nil
}

// Leave takes the claim out. It gives the lane of a wake-up that was not looked at.
func (p *Parking) Leave(w *Waiter) (unused directory.LaneID, pending bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked--
	p.remove(w)
	select {
	case unused = <-w.Woken:
		return unused, true
	default:
		return 0, false
	}
}

// Wake wakes at most count claims that can take from lane, which is of a queue in
// push mode or not, and says how many. It goes over those alone that ask for the lane's
// queue and are asleep.
func (p *Parking) Wake(lane directory.Lane, push bool, count int) (woken int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, platform := p.first(queueRef{owner: lane.Tenant, name: lane.Queue}), p.first(queueRef{owner: tenant.Platform, name: lane.Queue})
	if push {
		own, platform = p.first(queueRef{push: true}), nil
	}
	for woken < count && (own != nil || platform != nil) {
		next := &own
		if own == nil || platform != nil && waiterAt(platform).number < waiterAt(own).number {
			next = &platform
		}
		w := waiterAt(*next)
		*next = (*next).Next()
		if !w.filter.Serves(&lane) {
			continue
		}
		p.remove(w)
		select {
		case w.Woken <- lane.ID:
			woken++
		default: // it has not taken the last one yet
		}
	}
	return woken
}

func (p *Parking) first(s queueRef) *list.Element {
	if sleepers := p.sleeping[s]; sleepers != nil {
		return sleepers.Front()
	}
	return nil
}

// Count is how many claims are parked.
func (p *Parking) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parked
}
