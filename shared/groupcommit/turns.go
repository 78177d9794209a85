package groupcommit

import "slices"

// Turns says who is next among those that share something: whoever lines up much waits
// behind its own, not before others. It is start-time fair queueing (Goyal, Vin and
// Cheng, 1996): each request begins where its owner's last one ended, but not before
// what is being served now, and the earliest beginning is served first. The zero value
// is ready; it is not safe for concurrent use.
type Turns[K comparable] struct {
	now  int64       // the beginning that was served last
	ends map[K]int64 // where each owner's last request ends, if after now
	many int         // how large ends gets before it is looked through
}

// Turn is a request's place among all.
type Turn[K comparable] struct {
	owner  K
	weight int64
	begin  int64
}

// Before says that a turn comes before another.
func (t Turn[K]) Before(other Turn[K]) bool { return t.begin < other.begin }

// fewOwners is how many owners are remembered without a look at whether they still matter.
const fewOwners = 1024

// Next is the turn that a request would get. Nothing is charged for it before LineUp.
func (t *Turns[K]) Next(owner K, weight int) Turn[K] {
	return Turn[K]{owner, int64(max(weight, 1)), max(t.now, t.ends[owner])}
}

// LineUp gives a request of a weight its turn.
func (t *Turns[K]) LineUp(owner K, weight int) Turn[K] {
	if t.ends == nil {
		t.ends, t.many = map[K]int64{}, fewOwners
	}
	if len(t.ends) >= t.many {
		for other, end := range t.ends {
			if end <= t.now {
				delete(t.ends, other)
			}
		}
		t.many = max(fewOwners, 2*len(t.ends))
	}
	turn := t.Next(owner, weight)
	t.ends[owner] = turn.begin + turn.weight
	return turn
}

// Served says that a turn has come.
func (t *Turns[K]) Served(turn Turn[K]) { t.now = max(t.now, turn.begin) }

// Idle says that nobody waits: all begin alike.
func (t *Turns[K]) Idle() { *t = Turns[K]{} }

// Leave takes the one at a place out of a line that is in order of turns; it will not be
// served. Its owner is not charged for it: those of the owner that came later take
// its time, in their order, or else an owner whose requests are all given up would
// wait behind what it never got.
func Leave[K comparable, E any](t *Turns[K], line []E, at int, turn func(E) *Turn[K]) []E {
	left := *turn(line[at])
	line = slices.Delete(line, at, at+1)
	end, charged := t.ends[left.owner]
	if !charged {
		return line
	}
	if t.ends[left.owner] = end - left.weight; t.ends[left.owner] <= t.now {
		delete(t.ends, left.owner)
	}
	if end == left.begin+left.weight {
		return line // it was the owner's last
	}
	inOrder := true
	for i, e := range line[at:] {
		own := turn(e)
		if own.owner == left.owner {
			own.begin -= left.weight
		}
		inOrder = inOrder && (i == 0 || !own.Before(*turn(line[at+i-1])))
	}
	if inOrder {
		return line
	}
	var later []E
	others := at
	for _, e := range line[at:] {
		if turn(e).owner == left.owner {
			later = append(later, e)
		} else {
			line[others] = e
			others++
		}
	}
	for to := len(line); len(later) > 0; { // merge from the end
		to--
		last := len(later) - 1
		if others > at && turn(later[last]).Before(*turn(line[others-1])) {
			others--
			line[to] = line[others]
		} else {
			line[to], later = later[last], later[:last]
		}
	}
	return line
}
