package batch

import (
	"iter"
	"slices"
	"sort"
)

// Item is what waits in a Queue. Its fields do not change while it waits.
type Item[K comparable, V any] struct {
	Value V
	// Owner is who pays the weight. Owners take turns.
	Owner K
	// Weight is what the item costs its owner. Items of weight 0 cost nothing: among
	// themselves they are served in order of arrival.
	Weight int

	start int64 // virtual start time, see Queue
}

// Queue is a bounded queue in which owners take turns by weight, in the order of start-time fair queueing (Goyal, Vin and
// Cheng, 1996): in virtual time an item starts where its owner's previous one ends, but not before the item that was served
// last, and ends its weight later. The earliest start is served first; equal ones in order of arrival. So an owner with many
// items waits behind its own, and not before others. A new item that finds the queue full displaces the last one in order if
// that would be served after it. The zero value has room for nothing: set Capacity. It is not safe for concurrent use.
type Queue[K comparable, V any] struct {
	// Capacity bounds the items.
	Capacity int

	items []*Item[K, V] // in order
	now   int64         // the start of the item that was served last
	ends  map[K]int64   // where each owner's last item ends, if after now
	purge int           // the size of ends at which entries that no longer matter are deleted
}

// Push adds an item. If the queue is full, it removes and returns the last item where the new one would be served before
// that; otherwise it refuses the new one, and ok is false. A refused or displaced item is not charged.
func (q *Queue[K, V]) Push(item *Item[K, V]) (displaced *Item[K, V], ok bool) {
	if last := len(q.items) - 1; len(q.items) >= q.Capacity {
		if last < 0 || q.next(item.Owner) >= q.items[last].start {
			return nil, false
		}
		displaced = q.items[last]
		q.remove(last)
	}
	q.add(item)
	return displaced, true
}

// First returns the item to be served next, nil if there is none.
func (q *Queue[K, V]) First() *Item[K, V] {
	if len(q.items) == 0 {
		return nil
	}
	return q.items[0]
}

// Pop removes the item to be served next, and returns it; nil if there is none.
func (q *Queue[K, V]) Pop() *Item[K, V] {
	first := q.First()
	if first != nil {
		q.cut(0)
		q.now = max(q.now, first.start)
	}
	return first
}

// Remove removes an item that is not to be served. Its owner is not charged for it. It
// reports false if the item is not in the queue.
func (q *Queue[K, V]) Remove(item *Item[K, V]) bool {
	at := slices.Index(q.items, item)
	if at < 0 {
		return false
	}
	q.remove(at)
	return true
}

// All yields the items in the order in which they would be served.
func (q *Queue[K, V]) All() iter.Seq[*Item[K, V]] { return slices.Values(q.items) }

// Len is the number of items.
func (q *Queue[K, V]) Len() int { return len(q.items) }

// Forget deletes what owners were charged if there are no items: all owners are equal again. A caller does it when it is
// idle.
func (q *Queue[K, V]) Forget() {
	if len(q.items) == 0 {
		*q = Queue[K, V]{Capacity: q.Capacity}
	}
}

// minPurge is how many owners are remembered before any is looked at again.
const minPurge = 1024

// next is where the owner's next item would start.
func (q *Queue[K, V]) next(owner K) int64 {
	if len(q.ends) == 0 {
		return q.now
	}
	return max(q.now, q.ends[owner])
}

// add charges the owner and puts the item in its place.
func (q *Queue[K, V]) add(item *Item[K, V]) {
	item.start = q.next(item.Owner)
	if item.Weight > 0 {
		q.charge(item)
	}
	if n := len(q.items); n == 0 || item.start >= q.items[n-1].start { // always without owners
		q.items = append(q.items, item)
		return
	}
	at := sort.Search(len(q.items), func(i int) bool { return item.start < q.items[i].start })
	q.items = slices.Insert(q.items, at, item)
}

func (q *Queue[K, V]) charge(item *Item[K, V]) {
	if q.ends == nil {
		q.ends, q.purge = map[K]int64{}, minPurge
	}
	if len(q.ends) >= q.purge {
		for owner, end := range q.ends {
			if end <= q.now {
				delete(q.ends, owner)
			}
		}
		q.purge = max(minPurge, 2*len(q.ends))
	}
	q.ends[item.Owner] = item.start + int64(item.Weight)
}

// remove removes an item that is not served. What its owner was charged for it goes to
// the owner's later items: they start earlier, in their order. Without that an owner
// whose items are all given up would wait behind what it never got.
func (q *Queue[K, V]) remove(at int) {
	removed := q.items[at]
	q.cut(at)
	end, charged := q.ends[removed.Owner]
	if !charged || removed.Weight <= 0 {
		return
	}
	weight := int64(removed.Weight)
	if q.ends[removed.Owner] = end - weight; end-weight <= q.now {
		delete(q.ends, removed.Owner)
	}
	if end == removed.start+weight {
		return // it was the owner's last
	}
	rest, inOrder := q.items[at:], true
	for i, item := range rest {
		if item.Owner == removed.Owner {
			item.start -= weight
		}
		inOrder = inOrder && (i == 0 || item.start >= rest[i-1].start)
	}
	if !inOrder {
		reorder(rest, removed.Owner)
	}
}

// cut takes an item out of the slice; the first one without moving the others.
func (q *Queue[K, V]) cut(at int) {
	switch {
	case len(q.items) == 1:
		q.items = nil // the array behind it may be long
	case at == 0:
		q.items[0] = nil
		q.items = q.items[1:]
	default:
		q.items = slices.Delete(q.items, at, at+1)
	}
}

// reorder merges an owner's items, whose starts have become earlier, with the others.
// Of equal starts the others' are first: they were before.
func reorder[K comparable, V any](items []*Item[K, V], owner K) {
	var moved []*Item[K, V]
	others := 0
	for _, item := range items {
		if item.Owner == owner {
			moved = append(moved, item)
		} else {
			items[others] = item
			others++
		}
	}
	for to := len(items) - 1; len(moved) > 0; to-- { // from the end, in place
		last := len(moved) - 1
		if others > 0 && moved[last].start < items[others-1].start {
			others--
			items[to] = items[others]
		} else {
			items[to], moved = moved[last], moved[:last]
		}
	}
}
