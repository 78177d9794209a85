// Package seats bounds the work that is under way at once, and shares it among owners, such as tenants, by what each has
// used lately. It is the model of Kubernetes' API Priority and Fairness: a call takes as many seats as it is expected to
// need, by what the same operation of the same owner took before, and is corrected by what it did take.
//
//	seats.go    calls take seats and leave them
//	owners.go   who has used how much lately, and who is next
//	costs.go    what a call is expected to take
package seats

import (
	"container/list"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Why a call gets no seat. Nothing was done.
var (
	// ErrFull says that as many calls wait as may, and that the call's owner has the most of them.
	ErrFull = errors.New("seats: too many calls wait")
	// ErrDisplaced says that another owner's call has got the place of a call that waited: its owner had the most.
	ErrDisplaced = errors.New("seats: another owner's call waits instead")
)

// Options of Seats.
type Options struct {
	// Seats is how many there are.
	Seats int
	// Classes are the priorities of calls, the most urgent first; one without bounds of its own if nil.
	Classes []Class
	// Waiting is how many calls may wait.
	Waiting int
	// Free calls are those that are expected to take less: they take no seat, and do not wait. 0: none is.
	Free time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
}

// Class bounds the calls of one priority.
type Class struct {
	// All is how many seats calls of this class and of less urgent ones may take together: the others are reserved for more
	// urgent ones. So a class waits for more urgent ones only where all seats are taken.
	All int
	// Own bounds the seats of this class alone; 0 does not.
	Own int
	// Share is how many of them an owner may have while others are active, so that another owner's next call need not wait; 0: all.
	Share int
	// Unit is the time that one seat stands for: a call that is expected to take n times as long takes n seats, but no more than
	// Widest. 0: each call takes one.
	Unit   time.Duration
	Widest int
}

// Work is what a call takes a seat for.
type Work struct {
	// Class is its priority, an index of Options.Classes.
	Class int
	// Owner is who pays for it. Work without an owner is for several: it takes one seat, and goes before any owner's.
	Owner string
	// Operation names what is done, and On what with: with the owner they say how long it is expected to take.
	Operation, On string
	// Size is what that grows with, such as bytes; 0 where it grows with nothing.
	Size int
	// Guess is how long it takes where nothing is known yet.
	Guess time.Duration
}

// Seats are the seats of one resource. They are safe for concurrent use.
type Seats struct {
	options Options

	mu      sync.Mutex
	taken   []int  // by class
	waiting []line // by class
	waits   int
	owners  map[string]*owner
	costs   costs
	// forgetAt is how many owners there are when those that have used nothing lately are forgotten.
	forgetAt int
	// latest is the owner that has come last, and before is the last one that was another.
	latest, before visit
	observers      []func(operation string, took time.Duration)
}

// visit is when an owner came.
type visit struct {
	owner string
	at    time.Time
}

// Seat is what a call has taken. Leave gives it back.
type Seat struct {
	seats    *Seats
	work     Work
	width    int
	expected time.Duration
	begun    time.Time
}

// waiter is a call that waits.
type waiter struct {
	*Seat
	// turn gets nil when the seat is taken, or why it is not; it holds one.
	turn  chan error
	place *list.Element // in its owner's list; nil once it does not wait
}

// New makes Seats.
func New(o Options) *Seats {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Classes == nil {
		o.Classes = []Class{{All: o.Seats}}
	}
	return &Seats{
		options: o, taken: make([]int, len(o.Classes)), waiting: make([]line, len(o.Classes)),
		owners: map[string]*owner{}, costs: newCosts(), forgetAt: leastForgotten,
	}
}

const (
	waitingForOne = 4096
	processorTime = 5 * time.Millisecond
	processorFree = 100 * time.Microsecond
)

// Processors are the seats of the process's own computing, such as decoding and encoding: as many as it has processors.
// Nobody waits for others while it has one. What takes less than 100 µs takes none.
func Processors() *Seats {
	n := max(runtime.GOMAXPROCS(0), 2)
	return New(Options{Seats: n, Waiting: waitingForOne, Free: processorFree, Classes: []Class{{All: n, Share: n * 3 / 4, Unit: processorTime, Widest: n / 2}}})
}

// Take takes seats for a call, and waits for them until ctx ends. The error is ErrFull, ErrDisplaced or the context's. Of
// those that wait in a class, the owner goes first that has used the least lately.
func (s *Seats) Take(ctx context.Context, work Work) (*Seat, error) {
	return s.TakeWithin(ctx, work, forEver)
}

const forEver = time.Duration(math.MaxInt64)

// TakeWithin is Take for a call that waits for so long at most: then the error is context.DeadlineExceeded.
func (s *Seats) TakeWithin(ctx context.Context, work Work, most time.Duration) (*Seat, error) {
	seat, waits, err := s.begin(work)
	if waits == nil {
		return seat, err
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case err := <-waits.turn:
		if err != nil {
			return nil, err
		}
		return seat, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = context.DeadlineExceeded
	}
	if s.abandon(waits) {
		return nil, err
	}
	if refused := <-waits.turn; refused != nil || ctx.Err() != nil {
		if refused == nil {
			seat.Leave() // the turn came at the same time, and its caller has left
		}
		return nil, err
	}
	return seat, nil
}

// begin takes seats for a call that need not wait; waits is nil then, and where the call is refused.
func (s *Seats) begin(work Work) (seat *Seat, waits *waiter, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	s.note(work.Owner, now)
	seat = &Seat{seats: s, work: work, expected: s.costs.expected(work), begun: now}
	if seat.expected < s.options.Free {
		return seat, nil, nil
	}
	seat.width = s.width(seat)
	if s.waiting[work.Class].calls == 0 && s.admits(seat, now) { // nearly always
		s.start(seat, now)
		return seat, nil, nil
	}
	waits = &waiter{Seat: seat, turn: make(chan error, 1)}
	if err := s.enter(waits); err != nil {
		return nil, nil, err
	}
	s.startNext()
	return seat, waits, nil
}

// Leave gives the seats back, and charges the owner what was used. took is how long the call had them.
func (seat *Seat) Leave() (took time.Duration) {
	s := seat.seats
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.options.Now()
	took = now.Sub(seat.begun)
	s.costs.correct(seat.work, took)
	for _, observe := range s.observers {
		observe(seat.work.Operation, took)
	}
	if seat.work.Owner != "" {
		by := s.of(seat.work.Owner)
		by.charge(took, now)
		if seat.width > 0 {
			by.add(-1, seat)
		}
	}
	if seat.width > 0 {
		s.taken[seat.work.Class] -= seat.width
		s.startNext()
	}
	return took
}

// width is how many seats a call takes.
func (s *Seats) width(seat *Seat) int {
	of := s.options.Classes[seat.work.Class]
	if of.Unit == 0 || seat.work.Owner == "" {
		return 1
	}
	return max(min(int(seat.expected/of.Unit), of.Widest, of.All/2), 1)
}

// admits says whether a call may take its seats now.
func (s *Seats) admits(seat *Seat, now time.Time) bool {
	class, held := seat.work.Class, 0
	for k, taken := range slices.Backward(s.taken) {
		held += taken
		if k <= class && held > 0 && held+seat.width > s.options.Classes[k].All {
			return false
		}
	}
	own, bound := s.taken[class], s.options.Classes[class].Own
	return (bound == 0 || own == 0 || own+seat.width <= bound) && s.leavesSome(seat, now)
}

// leavesSome says that the call's owner leaves seats to the others, if there are any.
func (s *Seats) leavesSome(seat *Seat, now time.Time) bool {
	by := s.owners[seat.work.Owner]
	share := s.options.Classes[seat.work.Class].Share
	if seat.work.Owner == "" || by == nil || share == 0 {
		return true
	}
	taken := by.taken[seat.work.Class]
	return taken == 0 || taken+seat.width <= share || !s.othersThan(seat.work.Owner, now)
}

// othersThan says whether others than an owner have come lately.
func (s *Seats) othersThan(owner string, now time.Time) bool {
	other := s.latest
	if other.owner == owner {
		other = s.before
	}
	return now.Sub(other.at) < lately
}

// note notes who has come.
func (s *Seats) note(owner string, now time.Time) {
	if owner == "" {
		return
	}
	if s.latest.owner != owner {
		s.before = s.latest
	}
	s.latest = visit{owner, now}
}

// start has a call take its seats.
func (s *Seats) start(seat *Seat, now time.Time) {
	s.taken[seat.work.Class] += seat.width
	seat.begun = now
	if seat.work.Owner != "" {
		s.of(seat.work.Owner).add(1, seat)
	}
}

// startNext starts those whose turn it is now.
func (s *Seats) startNext() {
	if s.waits == 0 {
		return
	}
	now := s.options.Now()
	for class := range s.waiting {
		for {
			next := s.next(class, now)
			if next == nil || !s.admits(next.Seat, now) {
				break // it does not wait behind others that need less
			}
			s.remove(next)
			s.start(next.Seat, now)
			next.turn <- nil
		}
	}
}

// Observe has a function called with what each call took, from now on; it must not take long.
func (s *Seats) Observe(took func(operation string, took time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observers = append(s.observers, took)
}

// Run does something in seats of the process's processors; where none comes within a while, or ctx ends, without: it has to
// be done, such as to answer for what was changed. s may be nil.
func (s *Seats) Run(ctx context.Context, work Work, do func()) {
	if s == nil {
		do()
		return
	}
	if seat, err := s.TakeWithin(ctx, work, longestWait); err == nil {
		defer seat.Leave()
	}
	do()
}

// longestWait is how long Run waits.
const longestWait = 5 * time.Second

// Counts are how many seats of a class are taken, and how many of its calls wait.
func (s *Seats) Counts(class int) (taken, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[class], s.waiting[class].calls
}

// Used is the owner's part of the time that all seats have together: 1 is all of it. It is an average of the last
// seconds.
func (s *Seats) Used(name string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.owners[name]
	if by == nil {
		return 0
	}
	return by.usedAt(s.options.Now()) / memory.Seconds() / float64(s.options.Seats)
}
