package coreclient

import (
	"slices"
	"sort"

	"github.com/forgequeue/forgequeue/shared/groupcommit"
)

// line decides which calls go to core now, which wait, and which are turned away.
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
type line struct {
	marks [ordered]mark
	// room is how many may wait, in all.
	room int

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
func (l *line) admits(c class) bool {
	return l.total < l.marks[c].total && l.busy[c] < l.marks[c].own
}

// enter starts a call or lets it wait (both false: there is no room). The owners of
// a class take turns, so that nobody waits for the many calls of another; of one
// owner's calls who waits longest goes first. A call takes the place of the last one
// of the latest class after its own, or else of the last one of its own class that
// would be served after it: that one is displaced.
func (l *line) enter(w *waiter) (started, waits bool, displaced *waiter) {
	if l.begin(w.class) {
		return true, false, nil
	}
	turns := &l.turns[w.class]
	if l.queued >= l.room {
		w.place = turns.Next(w.whose, 1)
		if displaced = l.displace(w); displaced == nil {
			return false, false, nil
		}
	}
	w.place = turns.LineUp(w.whose, 1)
	line := l.waiting[w.class]
	at := sort.Search(len(line), func(i int) bool { return w.place.Before(line[i].place) })
	l.waiting[w.class] = slices.Insert(line, at, w)
	l.queued++
	return false, true, displaced
}

// begin starts a call that need not wait.
func (l *line) begin(c class) bool {
	if len(l.waiting[c]) > 0 || !l.admits(c) {
		return false
	}
	l.start(c)
	return true
}

// displace takes out the last waiter of the latest class after w's, or of w's own if
// it would be served after w.
func (l *line) displace(w *waiter) *waiter {
	for later := ordered - 1; later >= w.class; later-- {
		n := len(l.waiting[later])
		if n == 0 {
			continue
		}
		if last := l.waiting[later][n-1]; later > w.class || w.place.Before(last.place) {
			l.giveUp(last, n-1)
			return last
		}
	}
	return nil
}

// leave ends a call and starts those whose turn it now is.
func (l *line) leave(c class) (started []*waiter) {
	l.busy[c]--
	l.total--
	for c := range ordered {
		for len(l.waiting[c]) > 0 && l.admits(c) {
			next := l.waiting[c][0]
			l.turns[c].Served(next.place)
			l.waiting[c] = slices.Delete(l.waiting[c], 0, 1)
			l.removed(c)
			l.start(c)
			started = append(started, next)
		}
	}
	return started
}

// abandon takes out a waiter that waits no longer; false if its turn had come.
func (l *line) abandon(w *waiter) bool {
	at := slices.Index(l.waiting[w.class], w)
	if at < 0 {
		return false
	}
	l.giveUp(w, at)
	return true
}

func (l *line) start(c class) {
	l.busy[c]++
	l.total++
}

// giveUp takes out a waiter whose turn has not come.
func (l *line) giveUp(w *waiter, at int) {
	l.waiting[w.class] = groupcommit.Leave(&l.turns[w.class], l.waiting[w.class], at, func(w *waiter) *groupcommit.Turn[string] { return &w.place })
	l.removed(w.class)
}

func (l *line) removed(c class) {
	l.queued--
	if len(l.waiting[c]) == 0 {
		l.turns[c].Idle()
	}
}
