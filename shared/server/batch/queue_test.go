package batch_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/shared/server/batch"
)

type (
	queue = batch.Queue[string, string]
	item  = batch.Item[string, string]
)

// What is given up, from either end of the queue, is not charged: those that stay keep
// their order, and the owner is next to another afterwards.
func TestWhatIsGivenUpIsNotCharged(t *testing.T) {
	t.Parallel()
	q := &queue{Capacity: 1000}
	enter := func(owner, name string, weight int) {
		t.Helper()
		if displaced, ok := q.Push(&item{Owner: owner, Weight: weight, Value: name}); displaced != nil || !ok {
			t.Fatalf("%s finds the queue full", name)
		}
	}
	refused := func(owner string, weight int) {
		t.Helper()
		defer func(capacity int) { q.Capacity = capacity }(q.Capacity)
		q.Capacity = q.Len()
		if _, ok := q.Push(&item{Owner: owner, Weight: weight}); ok {
			t.Fatalf("%s displaces another where it would be last", owner)
		}
	}
	leave := func(name string) {
		for one := range q.All() {
			if one.Value == name {
				if !q.Remove(one) || q.Remove(one) {
					t.Fatal("Remove is not once")
				}
				return
			}
		}
	}
	want := func(names ...string) {
		t.Helper()
		var got []string
		for one := range q.All() {
			got = append(got, one.Value)
		}
		if !slices.Equal(got, names) {
			t.Fatalf("in the queue %v, want %v", got, names)
		}
	}
	enter("a", "a1", 5)
	refused("a", 1)
	enter("a", "a2", 1)
	refused("a", 2)
	enter("a", "a3", 2)
	enter("b", "b1", 1)
	enter("b", "b2", 1)
	enter("b", "b3", 1)
	want("a1", "b1", "b2", "b3", "a2", "a3")
	leave("a1") // a2 starts at 0 now, a3 at 1
	want("b1", "a2", "b2", "a3", "b3")
	leave("a3")
	enter("a", "a4", 1)
	want("b1", "a2", "b2", "a4", "b3")
	for range 10_000 {
		refused("a", 1)
		enter("a", "gone", 1)
		leave("gone")
	}
	for range 100 {
		refused("a", 1)
		enter("a", "gone", 1)
	}
	for range 100 {
		leave("gone") // the first first
	}
	refused("a", 1)
	enter("a", "a5", 1)
	want("b1", "a2", "b2", "a4", "b3", "a5")
}

// An owner that was away while others were served has saved nothing up: it takes turns from
// now on.
func TestTimeAwayIsNotSaved(t *testing.T) {
	t.Parallel()
	q := &queue{Capacity: 100}
	for range 50 {
		q.Push(&item{Owner: "a", Weight: 1})
	}
	for range 48 {
		q.Pop()
	}
	for range 2 {
		q.Push(&item{Owner: "b", Weight: 1})
	}
	for i, owner := range []string{"b", "a", "b", "a"} {
		if got := q.Pop(); got.Owner != owner {
			t.Errorf("%d: %s, want %s", i, got.Owner, owner)
		}
	}
}

// Items of weight 0 are served in order of arrival, whatever their owners, and nothing is
// displaced for them.
func TestWithoutWeightsTheOrderIsThatOfArrival(t *testing.T) {
	t.Parallel()
	q := &queue{Capacity: 4}
	owners := []string{"a", "a", "b", "a"}
	for _, owner := range owners {
		q.Push(&item{Owner: owner})
	}
	if displaced, ok := q.Push(&item{Owner: "c"}); displaced != nil || ok {
		t.Error("a full queue takes another")
	}
	for i, owner := range owners {
		if got := q.Pop(); got.Owner != owner {
			t.Errorf("%d: %s, want %s", i, got.Owner, owner)
		}
	}
	if q.Pop() != nil || q.First() != nil || q.Len() != 0 {
		t.Error("something is left")
	}
}

const modelWeight = 5 // the largest

// model checks a Queue from outside: it knows the items that wait, in order of arrival,
// and for each how much weight of each owner was served since.
type model struct {
	queue   queue
	waiting []*item
	served  map[*item]map[string]int
}

// Whatever is pushed, served and removed:
//   - the queue never has more items than its capacity;
//   - each owner's items are served in order of arrival, and while an item
//     waits no other owner gets more than the item's own, but for one item of each;
//   - only the last item is displaced, by one that would be served before it, and an item is
//     refused only if it would be the last.
func TestQueueKeepsItsRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{queue: queue{Capacity: rapid.IntRange(0, 30).Draw(t, "capacity")}, served: map[*item]map[string]int{}}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				owner := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "owner")
				for range atOnce(t) {
					m.push(t, owner)
				}
			},
			"pop": func(t *rapid.T) {
				for range min(atOnce(t), m.queue.Len()) {
					m.serve(t, m.queue.Pop())
				}
			},
			"remove": m.remove,
			"forget": func(*rapid.T) { m.queue.Forget() },
			"":       m.check,
		})
	})
}

func atOnce(t *rapid.T) int { return rapid.IntRange(1, 10).Draw(t, "at once") }

func (m *model) push(t *rapid.T, owner string) {
	pushed := item{Owner: owner, Weight: rapid.IntRange(1, modelWeight).Draw(t, "weight")}
	before := slices.Collect(m.queue.All())
	last := m.wouldBeLast(t, pushed)
	one := &pushed
	displaced, ok := m.queue.Push(one)
	full := len(before) >= m.queue.Capacity
	switch {
	case ok != (!full || !last):
		t.Fatalf("full: %v, it would be the last one: %v, it was taken: %v", full, last, ok)
	case (displaced != nil) != (full && ok):
		t.Fatalf("full: %v, taken: %v, displaced: %v", full, ok, displaced)
	case displaced != nil && displaced != before[len(before)-1]:
		t.Fatal("the displaced one was not the last")
	}
	if displaced != nil {
		m.forget(displaced)
	}
	if ok {
		m.waiting = append(m.waiting, one)
		m.served[one] = map[string]int{}
	}
}

// wouldBeLast pushes a copy where there is room, looks where it is, and removes it again.
func (m *model) wouldBeLast(t *rapid.T, probe item) bool {
	before := slices.Collect(m.queue.All())
	capacity := m.queue.Capacity
	m.queue.Capacity = len(before) + 1
	if displaced, ok := m.queue.Push(&probe); displaced != nil || !ok {
		t.Fatal("no room where there is some")
	}
	with := slices.Collect(m.queue.All())
	if !m.queue.Remove(&probe) || m.queue.Remove(&probe) {
		t.Fatal("Remove is not once")
	}
	m.queue.Capacity = capacity
	if after := slices.Collect(m.queue.All()); !slices.Equal(before, after) {
		t.Fatal("an item that came and went has changed the order")
	}
	return with[len(with)-1] == &probe
}

// serve checks the item that was popped.
func (m *model) serve(t *rapid.T, next *item) {
	if next == nil {
		if len(m.waiting) > 0 {
			t.Fatal("items wait, and none is served")
		}
		t.Skip("nothing waits")
	}
	for _, other := range m.waiting {
		if other == next {
			break
		}
		if other.Owner == next.Owner {
			t.Fatal("a later item of an owner is served before an earlier one")
		}
	}
	m.forget(next)
	for _, other := range m.waiting {
		served := m.served[other]
		served[next.Owner] += next.Weight
		if next.Owner != other.Owner && served[next.Owner] > served[other.Owner]+2*modelWeight {
			t.Fatalf("an item of %s waits while %s got %d and %s %d", other.Owner, next.Owner, served[next.Owner], other.Owner, served[other.Owner])
		}
	}
}

func (m *model) remove(t *rapid.T) {
	if len(m.waiting) == 0 {
		t.Skip("nothing waits")
	}
	one := m.waiting[rapid.IntRange(0, len(m.waiting)-1).Draw(t, "which")]
	if !m.queue.Remove(one) || m.queue.Remove(one) {
		t.Fatal("Remove is not once")
	}
	m.forget(one)
}

func (m *model) forget(one *item) {
	m.waiting = slices.DeleteFunc(m.waiting, func(other *item) bool { return other == one })
	delete(m.served, one)
}

// check compares the queue with what has come and gone.
func (m *model) check(t *rapid.T) {
	all := slices.Collect(m.queue.All())
	if len(all) != len(m.waiting) || m.queue.Len() != len(all) || len(all) > m.queue.Capacity {
		t.Fatalf("%d items of %d wait, the queue has %d and says %d", len(m.waiting), m.queue.Capacity, len(all), m.queue.Len())
	}
	if first := m.queue.First(); len(all) > 0 && first != all[0] || len(all) == 0 && first != nil {
		t.Fatal("First is not the first of All")
	}
}
