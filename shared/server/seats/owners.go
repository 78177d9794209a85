package seats

import (
	"container/list"
	"math"
	"slices"
	"time"
)

// memory is the time constant of what an owner has used: after so long a third of it still counts.
const memory = 3 * time.Second

// lately is how long an owner counts as active after it has come.
const lately = time.Second

// leastForgotten is how many owners are remembered before any is forgotten.
const leastForgotten = 1024

// mostClasses bounds Options.Classes.
const mostClasses = 8

// owner is who takes seats, or waits for them, or has used some lately.
type owner struct {
	// used is time in seats, in seconds, that fades: as of at.
	used float64
	at   time.Time
	// taken are seats, by class.
	taken [mostClasses]int
	// calls have seats: when they have begun and what they are expected to take, in seconds and added up.
	calls           int
	begun, expected float64
	// waits is how many calls wait, of all classes.
	waits int
}

// uses is what counts now, in seconds: what was used lately, and what the calls under way have used or will.
func (o *owner) uses(now time.Time) float64 {
	return o.usedAt(now) + max(float64(o.calls)*seconds(now)-o.begun, o.expected)
}

func (o *owner) usedAt(now time.Time) float64 {
	if o.used == 0 {
		return 0
	}
	return o.used * math.Exp(-now.Sub(o.at).Seconds()/memory.Seconds())
}

// charge adds what was used.
func (o *owner) charge(took time.Duration, now time.Time) {
	o.used, o.at = o.usedAt(now)+took.Seconds(), now
}

// add counts a call that has begun, or with -1 one that has ended.
func (o *owner) add(sign int, seat *Seat) {
	o.calls += sign
	o.taken[seat.work.Class] += sign * seat.width
	o.begun += float64(sign) * seconds(seat.begun)
	o.expected += float64(sign) * seat.expected.Seconds()
	if o.calls == 0 {
		o.begun, o.expected = 0, 0 // exactly
	}
}

// seconds is a time, for differences.
func seconds(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

// of gives an owner, and forgets others.
func (s *Seats) of(name string) *owner {
	if known := s.owners[name]; known != nil {
		return known
	}
	if len(s.owners) >= s.forgetAt {
		const nothing = 1e-4 // seconds
		now := s.options.Now()
		for other, of := range s.owners {
			if of.calls == 0 && of.waits == 0 && of.usedAt(now) < nothing {
				delete(s.owners, other)
			}
		}
		s.forgetAt = max(2*len(s.owners), leastForgotten)
	}
	made := &owner{}
	s.owners[name] = made
	return made
}

// line is the calls of one class that wait, by owner.
type line struct {
	calls int
	by    map[string]*list.List // of *waiter, the first to come in front
}

// next is the call of a class whose turn it is, nil where none waits that may have one.
func (s *Seats) next(class int, now time.Time) *waiter {
	var first *waiter
	least := math.Inf(1)
	for name, calls := range s.waiting[class].by {
		one := calls.Front().Value.(*waiter) //nolint:forcetypeassert // nothing else is in it
		if name == "" {
			return one
		}
		if !s.leavesSome(one.Seat, now) {
			continue
		}
		if used := s.owners[name].uses(now); used < least || used == least && one.begun.Before(first.begun) {
			first, least = one, used
		}
	}
	return first
}

// enter has a call wait. Where as many wait as may, the owner with the most loses its newest call of its least urgent
// class: that may be this one.
func (s *Seats) enter(one *waiter) error {
	name := one.work.Owner
	if s.waits >= s.options.Waiting {
		longest, most := name, s.of(name).waits+1
		for other, of := range s.owners {
			if of.waits > most {
				longest, most = other, of.waits
			}
		}
		last := s.last(longest)
		if last == nil || longest == name && last.work.Class <= one.work.Class {
			return ErrFull
		}
		s.remove(last)
		last.turn <- ErrDisplaced
	}
	at := &s.waiting[one.work.Class]
	if at.by == nil {
		at.by = map[string]*list.List{}
	}
	if at.by[name] == nil {
		at.by[name] = list.New()
	}
	one.place = at.by[name].PushBack(one)
	at.calls++
	s.waits++
	s.of(name).waits++
	return nil
}

// last is an owner's newest call of its least urgent class.
func (s *Seats) last(name string) *waiter {
	for _, line := range slices.Backward(s.waiting) {
		if calls := line.by[name]; calls != nil {
			return calls.Back().Value.(*waiter) //nolint:forcetypeassert // nothing else is in it
		}
	}
	return nil
}

// remove takes out a call that waits.
func (s *Seats) remove(one *waiter) {
	at, name := &s.waiting[one.work.Class], one.work.Owner
	at.by[name].Remove(one.place)
	one.place = nil
	if at.by[name].Len() == 0 {
		delete(at.by, name)
	}
	at.calls--
	s.waits--
	s.owners[name].waits--
}

// abandon takes out a call whose caller waits no longer; false if it does not wait.
func (s *Seats) abandon(one *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.place == nil {
		return false
	}
	s.remove(one)
	s.startNext() // others may need less
	return true
}
