package coreclient

import (
	"slices"
	"sort"

	"github.com/forgequeue/forgequeue/shared/groupcommit"
)

// admissionQueue decides which calls go to core now, which wait, and which are turned away.
// It has no clock and no lock.
//
// All classes share the calls in flight, and each may use them only up to its own
// mark, counted over all classes: what lies above a class's mark is kept for those
// before it. So a class can be held up by earlier ones, never by later ones.
//
//	calls in flight  0 ─────────────────────────────────────────── 100 %
//	lease            ▏ heartbeats, outcomes                            ▕
//	key              ▏                                            ▕ 95
//	claim            ▏                                       ▕ 90
//	submit           ▏                             ▕ 80
//	read             ▏                    ▕ 65
//	list             ▏            ▕ 50
type admissionQueue struct {
	marks [ordered]mark
	// capacity is how many may wait, in all.
	capacity int

	busy    [ordered]int
	total   int
	waiting [ordered][]*waiter // by turn; equal ones first come, first served
	turns   [ordered]groupcommit.Turns[string]
	queued  int
}

// mark bounds a class.
type mark struct {
	// total is the number of calls in flight, of any class, below which another of
	// this class may start.
	total int
	// own bounds the calls in flight of this class alone.
	own int
}

// waiter is a call that waits for its turn.
type waiter struct {
	class class
	// whose call it is. Within a class the owners take turns.
	whose string
	place groupcommit.Turn[string]
	// turn gets nil once the call may start, or why it may not. It holds one, so
	// that nobody waits for the waiter.
	turn chan error
}

// marksFor shares out a number of calls in flight. Every class may have at least
// one, and every class but the last leaves at least one to those before it as long
// as there are as many as classes.
func marksFor(inFlight int) [ordered]mark {
	part := func(percent int, after class) int {
		return max(min(inFlight*percent/100, inFlight-int(after)), 1)
	}
	return [ordered]mark{
		classLease:  {total: inFlight, own: inFlight},
		classKey:    {total: part(95, classKey), own: part(25, classKey)},
		classClaim:  {total: part(90, classClaim), own: inFlight},
		classSubmit: {total: part(80, classSubmit), own: inFlight},
		classRead:   {total: part(65, classRead), own: inFlight},
		classList:   {total: part(50, classList), own: part(25, classList)},
	}
}

// admits says whether another call of the class may start.
func (q *admissionQueue) admits(c class) bool {
	return q.total < q.marks[c].total && q.busy[c] < q.marks[c].own
}

// enter starts a call or lets it wait (both false: it is full). The owners of
// a class take turns, so that nobody waits for the many calls of another; of one
// owner's calls who waits longest goes first. A call takes the place of the last one
// of the latest class after its own, or else of the last one of its own class that
// would be served after it: that one is displaced.
func (q *admissionQueue) enter(w *waiter) (started, waits bool, displaced *waiter) {
	if q.begin(w.class) {
		return true, false, nil
	}
	turns := &q.turns[w.class]
	if q.queued >= q.capacity {
		w.place = turns.Next(w.whose, 1)
		if displaced = q.displace(w); displaced == nil {
			return false, false, nil
		}
	}
	w.place = turns.LineUp(w.whose, 1)
	waiting := q.waiting[w.class]
	at := sort.Search(len(waiting), func(i int) bool { return w.place.Before(waiting[i].place) })
	q.waiting[w.class] = slices.Insert(waiting, at, w)
	q.queued++
	return false, true, displaced
}

// begin starts a call that need not wait.
func (q *admissionQueue) begin(c class) bool {
	if len(q.waiting[c]) > 0 || !q.admits(c) {
		return false
	}
	q.start(c)
	return true
}

// displace takes out the last waiter of the latest class after w's, or of w's own if
// it would be served after w.
func (q *admissionQueue) displace(w *waiter) *waiter {
	for later := ordered - 1; later >= w.class; later-- {
		n := len(q.waiting[later])
		if n == 0 {
			continue
		}
		if last := q.waiting[later][n-1]; later > w.class || w.place.Before(last.place) {
			q.giveUp(last, n-1)
			return last
		}
	}
	return nil
}

// leave ends a call and starts those whose turn it now is.
func (q *admissionQueue) leave(c class) (started []*waiter) {
	q.busy[c]--
	q.total--
	for c := range ordered {
		for len(q.waiting[c]) > 0 && q.admits(c) {
			next := q.waiting[c][0]
			q.turns[c].Served(next.place)
			q.waiting[c] = slices.Delete(q.waiting[c], 0, 1)
			q.removed(c)
			q.start(c)
			started = append(started, next)
		}
	}
	return started
}

// abandon takes out a waiter that waits no longer; false if its turn had come.
func (q *admissionQueue) abandon(w *waiter) bool {
	at := slices.Index(q.waiting[w.class], w)
	if at < 0 {
		return false
	}
	q.giveUp(w, at)
	return true
}

func (q *admissionQueue) start(c class) {
	q.busy[c]++
	q.total++
}

// giveUp takes out a waiter whose turn has not come.
func (q *admissionQueue) giveUp(w *waiter, at int) {
	q.waiting[w.class] = groupcommit.Leave(&q.turns[w.class], q.waiting[w.class], at, func(w *waiter) *groupcommit.Turn[string] { return &w.place })
	q.removed(w.class)
}

func (q *admissionQueue) removed(c class) {
	q.queued--
	if len(q.waiting[c]) == 0 {
		q.turns[c].Idle()
	}
}
