package coreclient

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestEveryClassLeavesRoomToThoseBefore(t *testing.T) {
	t.Parallel()
	for _, inFlight := range []int{int(hop.OrderedClasses), 16, 100, 1024, 65536} {
		marks := marksFor(inFlight)
		if marks[hop.ClassLease].total != inFlight || marks[hop.ClassLease].own != inFlight {
			t.Errorf("%d: leases may use %+v", inFlight, marks[hop.ClassLease])
		}
		for c := hop.ClassKey; c < hop.OrderedClasses; c++ {
			if marks[c].total >= marks[c-1].total || marks[c].total < 1 || marks[c].own < 1 {
				t.Errorf("%d: %v may go up to %+v, %v up to %+v", inFlight, c, marks[c], c-1, marks[c-1])
			}
		}
	}
	for c, m := range marksFor(1) { // too few for all, but none is shut out
		if m.total != 1 || m.own != 1 {
			t.Errorf("one call in flight: %v may go up to %+v", hop.Class(c), m)
		}
	}
}

// model is what the queue must do, found by looking at everything that has entered.
type model struct {
	queue   admissionQueue
	running []hop.Class
	waiting []*waiter // in the order in which they came
}

// Whatever comes and goes: no bound is passed, nobody is overtaken by his like, no
// place stays empty that somebody waits for, and who is displaced is the last of
// the least urgent.
func TestQueueKeepsItsRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		inFlight := rapid.IntRange(int(hop.OrderedClasses), 40).Draw(t, "in flight")
		m := &model{queue: newAdmissionQueue(inFlight, rapid.IntRange(0, 20).Draw(t, "capacity"))}
		t.Repeat(map[string]func(*rapid.T){
			"enter":   m.enter,
			"leave":   m.leave,
			"abandon": m.abandon,
			"":        m.check,
		})
	})
}

func (m *model) enter(t *rapid.T) {
	w := newWaiter(hop.Class(rapid.IntRange(0, int(hop.OrderedClasses)-1).Draw(t, "class")), "")
	started, waits, displaced := m.queue.enter(w)
	if displaced != nil {
		if last := m.lastWaiting(); displaced != last || displaced.Class <= w.Class || !waits {
			t.Fatalf("%v displaced %v, the last of the least urgent is %v", w.Class, displaced.Class, last.Class)
		}
		m.forget(displaced)
	}
	switch {
	case started && waits:
		t.Fatal("started and waits")
	case started:
		m.running = append(m.running, hop.Class(w.Class))
	case waits:
		m.waiting = append(m.waiting, w)
	case len(m.waiting) < m.queue.waiting.Capacity || (m.lastWaiting() != nil && m.lastWaiting().Class > w.Class):
		t.Fatalf("%v was turned away from a queue that is not full", w.Class)
	}
}

// lastWaiting is the newest of the latest class that waits.
func (m *model) lastWaiting() *waiter {
	var last *waiter
	for _, w := range m.waiting {
		if last == nil || w.Class >= last.Class {
			last = w
		}
	}
	return last
}

func (m *model) leave(t *rapid.T) {
	if len(m.running) == 0 {
		t.Skip("nothing runs")
	}
	at := rapid.IntRange(0, len(m.running)-1).Draw(t, "which")
	c := m.running[at]
	m.running = slices.Delete(m.running, at, at+1)
	for _, next := range m.queue.leave(c) {
		for _, w := range m.waiting {
			if w.Class == next.Class && w != next {
				t.Fatal("overtaken by its like")
			}
			if w == next {
				break
			}
		}
		m.forget(next)
		m.running = append(m.running, hop.Class(next.Class))
	}
}

func (m *model) abandon(t *rapid.T) {
	if len(m.waiting) == 0 {
		t.Skip("nobody waits")
	}
	w := m.waiting[rapid.IntRange(0, len(m.waiting)-1).Draw(t, "which")]
	if !m.queue.abandon(w) || m.queue.abandon(w) {
		t.Fatal("abandon is not once")
	}
	m.forget(w)
}

func (m *model) forget(w *waiter) {
	m.waiting = slices.DeleteFunc(m.waiting, func(other *waiter) bool { return other == w })
}

func (m *model) check(t *rapid.T) {
	if m.queue.total != len(m.running) || m.queue.waiting.Len() != len(m.waiting) || len(m.waiting) > m.queue.waiting.Capacity || len(m.running) > m.queue.marks[hop.ClassLease].total {
		t.Fatalf("%d run, the queue says %d; %d wait, the queue says %d", len(m.running), m.queue.total, len(m.waiting), m.queue.waiting.Len())
	}
	for c := range hop.OrderedClasses {
		busy := 0
		for _, running := range m.running {
			if running == c {
				busy++
			}
		}
		if busy != m.queue.busy[c] || busy > m.queue.marks[c].own {
			t.Fatalf("%d of %v run, the queue says %d", busy, c, m.queue.busy[c])
		}
		if m.queue.waiting.LenClass(int(c)) > 0 && m.queue.admits(c) {
			t.Fatalf("%v waits though it may start", c)
		}
	}
}

// Calls that were refused, displaced or abandoned are not charged to their owner.
func TestCallsThatNeverRanAreNotCharged(t *testing.T) {
	t.Parallel()
	l := newAdmissionQueue(1, 3)
	enter := func(whose string) (*waiter, bool) {
		w := newWaiter(hop.ClassSubmit, whose)
		_, waits, _ := l.enter(w)
		return w, waits
	}
	if started, _, _ := l.enter(newWaiter(hop.ClassSubmit, "")); !started {
		t.Fatal("the first call does not start")
	}
	stays, _ := enter("other") // so that somebody always waits
	for range 10_000 {
		first, _ := enter("many")
		second, _ := enter("many")
		if _, waits := enter("many"); waits {
			t.Fatal("a call gets into a full queue")
		}
		if !l.abandon(first) || !l.abandon(second) {
			t.Fatal("a call that waits cannot be abandoned")
		}
	}
	for range 1000 { // each time the last of many is displaced
		first, _ := enter("many")
		second, _ := enter("many")
		third, waits := enter("equal")
		if !waits || l.abandon(second) {
			t.Fatal("the last one of many was not displaced")
		}
		l.abandon(first)
		l.abandon(third)
	}
	many, _ := enter("many")
	equal, _ := enter("equal")
	for _, want := range []*waiter{stays, many, equal} {
		if next := l.leave(hop.ClassSubmit); len(next) != 1 || next[0] != want {
			t.Fatalf("next is %v of %s, want %s", next, next[0].Owner, want.Owner)
		}
	}
}
