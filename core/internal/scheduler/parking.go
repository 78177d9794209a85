package scheduler

import (
	"container/list"
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// MaxParked is above the number of claims ever parked in one core.
const MaxParked = 1 << 20

// Parking is where claims wait for work. One job that becomes ready wakes one claim that can take
// it, the longest waiting first. A woken claim that leaves without a scan passes its wake-up on.
type Parking struct {
	mu     sync.Mutex
	parked int
	// arrived numbers the claims.
	arrived uint64
	// sleeping are the claims that can be woken, by queue, each list in order of arrival. A claim
	// for several queues is in several lists.
	sleeping map[queueRef]*list.List
}

// queueRef is a queue as claims ask for it: a tenant's, or under tenant.Platform all of that name,
// and the type of the jobs, empty for all. Claims for queues in push mode share one.
type queueRef struct {
	owner   tenant.ID
	name    string
	jobType string
	push    bool
}

// mostRefs bounds the lists that a claim is in: one for more pairs of queue and type is in those of
// its queues only, where wake-ups for other types visit it.
const mostRefs = 500

func (f *Filter) refs() []queueRef {
	if f.Push {
		return []queueRef{{push: true}}
	}
	byType := f.Types != nil && len(f.Queues)*len(f.Types) <= mostRefs
	var spots []queueRef
	for _, name := range f.Queues {
		if !byType {
			spots = append(spots, queueRef{owner: f.Owner, name: name})
			continue
		}
		for jobType := range f.Types {
			spots = append(spots, queueRef{owner: f.Owner, name: name, jobType: jobType})
		}
	}
	return spots
}

// Waiter is one parked claim.
type Waiter struct {
	filter *Filter
	number uint64
	// Woken gets the lane in which there is work. It holds one value, so Wake never blocks.
	Woken chan lanes.ID
	// at is its list elements, nil while it is awake.
	at map[queueRef]*list.Element
}

// Park registers a claim. Call it before the first scan: a job that becomes ready between the scan
// and the wait would wake no claim.
func (p *Parking) Park(filter *Filter) *Waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrived++
	p.parked++
	w := &Waiter{filter: filter, number: p.arrived, Woken: make(chan lanes.ID, 1)}
	p.sleep(w)
	return w
}

// Rearm is called by a claim that has taken its wake-up: it can be woken again, even during its
// scan.
func (p *Parking) Rearm(w *Waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.at == nil {
		p.sleep(w)
	}
}

// sleep inserts the claim by its arrival.
func (p *Parking) sleep(w *Waiter) {
	w.at = map[queueRef]*list.Element{}
	for _, s := range w.filter.refs() {
		if w.at[s] != nil {
			continue // the same queue twice
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

// insert searches from the nearer end: a new claim is the last one, a woken claim is one of the
// first.
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
	w, _ := one.Value.(*Waiter) // the lists hold nothing else
	return w
}

// remove takes the claim out of its lists.
func (p *Parking) remove(w *Waiter) {
	for s, one := range w.at {
		sleepers := p.sleeping[s]
		if sleepers.Remove(one); sleepers.Len() == 0 {
			delete(p.sleeping, s)
		}
	}
	w.at = nil
}

// Leave takes the claim out. It gives the lane of an unused wake-up.
func (p *Parking) Leave(w *Waiter) (unused lanes.ID, pending bool) {
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

// Wake wakes at most count claims that can take from lane, and gives how many. push says that its
// queue is in push mode. It visits only sleeping claims that ask for the lane's queue.
func (p *Parking) Wake(lane lanes.Lane, push bool, count int) (woken int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	nexts := [...]*list.Element{
		p.first(queueRef{owner: lane.Tenant, name: lane.Queue}), p.first(queueRef{owner: lane.Tenant, name: lane.Queue, jobType: lane.Type}),
		p.first(queueRef{owner: tenant.Platform, name: lane.Queue}), p.first(queueRef{owner: tenant.Platform, name: lane.Queue, jobType: lane.Type}),
	}
	if push {
		nexts = [...]*list.Element{p.first(queueRef{push: true}), nil, nil, nil}
	}
	for woken < count {
		var next **list.Element
		for i := range nexts {
			if nexts[i] != nil && (next == nil || waiterAt(nexts[i]).number < waiterAt(*next).number) {
				next = &nexts[i]
			}
		}
		if next == nil {
			break
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
		default: // the last wake-up is not taken yet
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

// Count is the number of parked claims.
func (p *Parking) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parked
}
