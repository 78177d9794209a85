package coreclient

import (
	"github.com/forgequeue/forgequeue/shared/server/batch"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// admissionQueue decides which calls go to core now, which wait, and which are turned away.
// It has no clock and no lock.
//
// All classes share the calls in flight, and each may use them only up to its own
// mark, counted over all classes: what is above a class's mark is reserved for lower
// classes. So a class can be delayed by lower ones, never by higher ones.
//
//	calls in flight  0 ─────────────────────────────────────────── 100 %
//	lease            ▏ heartbeats, outcomes                            ▕
//	key              ▏                                            ▕ 95
//	claim            ▏                                       ▕ 90
//	submit           ▏                             ▕ 80
//	read             ▏                    ▕ 65
//	list             ▏            ▕ 50
type admissionQueue struct {
	marks   [hop.OrderedClasses]mark
	busy    [hop.OrderedClasses]int
	total   int
	waiting batch.Queue[string, chan error] // by class; the owners of one take turns
}

// mark bounds a class.
type mark struct {
	// total is the number of calls in flight, of any class, below which another of
	// this class may start.
	total int
	// own bounds the calls in flight of this class alone.
	own int
}

// waiter is a call that waits for its turn. Its channel gets nil once the call may start,
// or why it may not. Its buffer of one keeps the sender from waiting for the waiter.
type waiter = batch.Item[string, chan error]

func newWaiter(c hop.Class, owner string) *waiter {
	return &waiter{Class: int(c), Owner: owner, Weight: 1, Value: make(chan error, 1)}
}

func newAdmissionQueue(inFlight, capacity int) admissionQueue {
	return admissionQueue{marks: marksFor(inFlight), waiting: batch.Queue[string, chan error]{Capacity: capacity}}
}

// marksFor divides a number of calls in flight among classes. Every class may have at
// least one, and leaves at least one to each class before it, if there are as many
// calls as classes.
func marksFor(inFlight int) [hop.OrderedClasses]mark {
	part := func(percent int, after hop.Class) int {
		return max(min(inFlight*percent/100, inFlight-int(after)), 1)
	}
	return [hop.OrderedClasses]mark{
		hop.ClassLease:  {total: inFlight, own: inFlight},
		hop.ClassKey:    {total: part(95, hop.ClassKey), own: part(25, hop.ClassKey)},
		hop.ClassClaim:  {total: part(90, hop.ClassClaim), own: inFlight},
		hop.ClassSubmit: {total: part(80, hop.ClassSubmit), own: inFlight},
		hop.ClassRead:   {total: part(65, hop.ClassRead), own: inFlight},
		hop.ClassList:   {total: part(50, hop.ClassList), own: part(25, hop.ClassList)},
	}
}

// admits returns whether another call of the class may start.
func (q *admissionQueue) admits(c hop.Class) bool {
	return q.total < q.marks[c].total && q.busy[c] < q.marks[c].own
}

// enter starts a call or lets it wait (both false: the queue is full). Of one owner's
// calls the one that has waited longest goes first. A call that finds the queue full
// displaces the last one of the highest class above its own; if there is none, the last
// of its own class, if that would be served after it.
func (q *admissionQueue) enter(w *waiter) (started, waits bool, displaced *waiter) {
	if q.begin(hop.Class(w.Class)) {
		return true, false, nil
	}
	displaced, waits = q.waiting.Push(w)
	q.waiting.Forget() // of the displaced one's class, if it was the only one
	return false, waits, displaced
}

// begin starts a call if it need not wait.
func (q *admissionQueue) begin(c hop.Class) bool {
	if q.waiting.LenClass(int(c)) > 0 || !q.admits(c) {
		return false
	}
	q.start(c)
	return true
}

// leave ends a call and starts those whose turn it is now.
func (q *admissionQueue) leave(c hop.Class) (started []*waiter) {
	q.busy[c]--
	q.total--
	for c := range hop.OrderedClasses {
		for q.waiting.LenClass(int(c)) > 0 && q.admits(c) {
			started = append(started, q.waiting.PopClass(int(c)))
			q.start(c)
		}
	}
	q.waiting.Forget()
	return started
}

// abandon takes out a waiter that waits no longer; false if its turn had come.
func (q *admissionQueue) abandon(w *waiter) bool {
	waited := q.waiting.Remove(w)
	q.waiting.Forget()
	return waited
}

func (q *admissionQueue) start(c hop.Class) {
	q.busy[c]++
	q.total++
}
