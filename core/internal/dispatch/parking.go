package dispatch

import (
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/queue"
)

// parkedMost is more claims than are ever parked in one core.
const parkedMost = 1 << 20

// parking is where claims wait for work. One job that becomes ready wakes one
// claim that can take it, the longest waiting first; a woken claim that leaves
// without having looked passes its wake-up on.
type parking struct {
	mu     sync.Mutex
	parked []*waiter
}

// waiter is one parked claim.
type waiter struct {
	filter *Filter
	// woken gets the lane in which there is work. It holds one value, so whoever
	// wakes never waits.
	woken chan queue.LaneID
}

// park registers a claim. It must be done before the claim looks for jobs, or one
// that comes between the look and the wait would wake nobody.
func (p *parking) park(filter *Filter) *waiter {
	w := &waiter{filter: filter, woken: make(chan queue.LaneID, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parked = append(p.parked, w)
	return w
}

// leave takes the claim out. It gives the lane of a wake-up that was not looked at.
func (p *parking) leave(w *waiter) (unused queue.LaneID, pending bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.parked {
		if other == w {
			p.parked = append(p.parked[:i], p.parked[i+1:]...)
			break
		}
	}
	select {
	case unused = <-w.woken:
		return unused, true
	default:
		return 0, false
	}
}

// wake wakes at most count claims that can take from lane, which is of a queue in
// push mode or not, and says how many.
func (p *parking) wake(lane queue.Lane, push bool, count int) (woken int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.parked {
		if woken >= count {
			break
		}
		if !w.filter.matches(lane, push) {
			continue
		}
		select {
		case w.woken <- lane.ID:
			woken++
		default: // it is awake already
		}
	}
	return woken
}

// count is how many claims are parked.
func (p *parking) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.parked)
}
