package worker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// aheadTime bounds how long handlers may take, on average, for jobs to be claimed ahead of them.
	aheadTime = 100 * time.Millisecond
	// aheadWork is the work that is claimed ahead: what the slots do in this time.
	aheadWork = aheadTime / 2
	// longestAhead is how long a job waits for a slot: then it is released, for a worker that has one. So none waits
	// behind a slow handler for longer than aheadTime.
	longestAhead = aheadTime * 8 / 10
	// aheadPerSlot bounds the jobs that are claimed ahead.
	aheadPerSlot = 10
)

// The parts of the mean duration that one handler replaces: what takes longer is learned at once, what takes less slowly.
const (
	rising  = 0.5
	falling = 0.1
)

// room says how many jobs a worker may claim: for the slots that are free, and, where there is a backlog, ahead of them
// for those that will be free before a claim's answer comes. A handler that takes a millisecond would otherwise wait for
// the answer most of the time. A job has its slot until its handler returns, not until its outcome is sent.
type room struct {
	slots int
	// changed wakes the claimer.
	changed chan struct{}

	mu sync.Mutex
	// running are the attempts that have a slot, by when they got it.
	running map[*lease]time.Time
	// waiting are leased and have no slot yet, the first to come in front.
	waiting []*lease
	// unsent is how many handlers have returned whose outcomes the server has not answered.
	unsent int
	// mean is how long handlers took lately, in seconds; 0 until one has returned.
	mean float64
	// backlog says that the last claim got all that it asked for. Otherwise other workers may be idle.
	backlog bool
	// stopping is closed when no more jobs start.
	stopping chan struct{}
	stopped  bool
}

func newRoom(slots int) *room {
	return &room{slots: slots, changed: make(chan struct{}, 1), running: map[*lease]time.Time{}, stopping: make(chan struct{})}
}

// wait waits until there is something to claim, and says how many jobs; 0 says that ctx has ended.
func (r *room) wait(ctx context.Context) int {
	for ctx.Err() == nil {
		if most := r.most(time.Now()); most > 0 {
			return most
		}
		select {
		case <-ctx.Done():
		case <-r.changed:
		}
	}
	return 0
}

// most is how many jobs may be claimed now.
func (r *room) most(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	free, ahead := r.slots-len(r.running), r.ahead(now)
	if free <= 0 && len(r.waiting) > ahead/2 {
		return 0 // there is enough to start; the next claim asks for more at once
	}
	held := len(r.running) + len(r.waiting) + r.unsent
	return max(min(free+ahead-len(r.waiting), r.slots+2*ahead-held, api.MaxClaim), 0)
}

// ahead is how many jobs may wait for a slot.
func (r *room) ahead(now time.Time) int {
	if !r.backlog || r.mean == 0 || r.mean >= aheadTime.Seconds() {
		return 0
	}
	quick := r.slots
	for _, since := range r.running {
		if now.Sub(since) >= aheadTime {
			quick--
		}
	}
	return int(float64(quick) * min(aheadWork.Seconds()/r.mean, aheadPerSlot))
}

// claimed notes the answer of a claim.
func (r *room) claimed(asked, came int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.backlog = came >= asked
}

// enter gives a job a slot, or lets it wait for one: its turn is closed when it has it.
func (r *room) enter(l *lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, l)
	r.startNext()
}

// starts waits until a job that has entered has its slot; false says that it gets none and has left: it is to be released.
func (r *room) starts(ctx context.Context, l *lease) bool {
	select {
	case <-l.turn:
		return true
	default:
	}
	longest := longestAhead
	if l.job.TimeoutMS != nil { // it counts from the claim
		longest = min(longest, time.Duration(*l.job.TimeoutMS)*time.Millisecond/10)
	}
	late := time.NewTimer(longest)
	defer late.Stop()
	select {
	case <-l.turn:
		return true
	case <-late.C:
	case <-r.stopping:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(r.waiting, l)
	if at < 0 { // its turn came at the same time
		return true
	}
	r.waiting = slices.Delete(r.waiting, at, at+1)
	r.unsent++
	r.mean = max(r.mean, aheadTime.Seconds()) // handlers take longer than they did
	return false
}

// stop lets no more jobs start.
func (r *room) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	close(r.stopping)
}

// leave gives back the slot of a handler that has returned.
func (r *room) leave(l *lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	took, part := max(time.Since(r.running[l]).Seconds(), time.Microsecond.Seconds()), falling
	switch {
	case r.mean == 0:
		part = 1
	case took > r.mean:
		part = rising
	}
	r.mean += part * (took - r.mean)
	delete(r.running, l)
	r.unsent++
	r.startNext()
	r.wake()
}

// answered notes that an outcome was answered, or cannot be sent.
func (r *room) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsent--
	r.wake()
}

// startNext gives the free slots to those that wait.
func (r *room) startNext() {
	started := min(len(r.waiting), r.slots-len(r.running))
	if r.stopped || started <= 0 {
		return
	}
	now := time.Now()
	for _, l := range r.waiting[:started] {
		r.running[l] = now
		close(l.turn)
	}
	r.waiting = slices.Delete(r.waiting, 0, started)
}

func (r *room) wake() {
	select {
	case r.changed <- struct{}{}:
	default: // a wake-up is waiting already
	}
}
