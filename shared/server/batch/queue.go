package batch

import (
	"iter"
	"slices"
)

// Item is what waits in a Queue. Its fields do not change while it waits.
type Item[K comparable, V any] struct {
	Value V
	// Class is the priority, from 0, the most urgent. It should be a small number: a Queue
	// has a slice of as many as it has seen.
	Class int
	// Owner is who pays the weight. The owners of a class take turns.
	Owner K
	// Weight is what the item costs its owner. Items of weight 0 cost nothing: among
	// themselves they are served in order of arrival.
	Weight int

	start int64 // virtual start time, see class
}

// Queue is a bounded queue with priority classes: items of an earlier class are served
// first, and within a class the owners take turns by weight. A new item that finds the
// queue full displaces the last one in order if that would be served after it. The zero
// value has room for nothing: set Capacity. It is not safe for concurrent use.
type Queue[K comparable, V any] struct {
	// Capacity bounds the items of all classes together.
	Capacity int

	classes []class[K, V]
	length  int
}

// Push adds an item. If the queue is full, it removes and returns the last item of the
// latest class where the new one would be served before that; otherwise it refuses the
// new one, and ok is false. A refused or displaced item is not charged.
func (q *Queue[K, V]) Push(item *Item[K, V]) (displaced *Item[K, V], ok bool) {
	for len(q.classes) <= item.Class {
		q.classes = append(q.classes, class[K, V]{})
	}
	c := &q.classes[item.Class]
	if q.length >= q.Capacity {
		if displaced = q.displace(item.Class, c.next(item.Owner)); displaced == nil {
			return nil, false
		}
	}
	c.add(item)
	q.length++
	return displaced, true
}

// displace removes the last item in order if one of a class with a start time would be
// served before it.
func (q *Queue[K, V]) displace(of int, start int64) *Item[K, V] {
	for at := len(q.classes) - 1; at >= of; at-- {
		c := &q.classes[at]
		if len(c.items) == 0 {
			continue
		}
		last := c.items[len(c.items)-1]
		if at == of && start >= last.start {
			return nil
		}
		c.remove(len(c.items) - 1)
		q.length--
		return last
	}
	return nil
}

// First returns the item to be served next, nil if there is none.
func (q *Queue[K, V]) First() *Item[K, V] {
	for at := range q.classes {
		if items := q.classes[at].items; len(items) > 0 {
			return items[0]
		}
	}
	return nil
}

// Pop removes the item to be served next, and returns it; nil if there is none.
func (q *Queue[K, V]) Pop() *Item[K, V] {
	first := q.First()
	if first == nil {
		return nil
	}
	return q.PopClass(first.Class)
}

// PopClass is Pop for one class.
func (q *Queue[K, V]) PopClass(class int) *Item[K, V] {
	if q.LenClass(class) == 0 {
		return nil
	}
	q.length--
	return q.classes[class].pop()
}

// Remove removes an item that is not to be served. Its owner is not charged for it. It
// reports false if the item is not in the queue.
func (q *Queue[K, V]) Remove(item *Item[K, V]) bool {
	if q.LenClass(item.Class) == 0 {
		return false
	}
	c := &q.classes[item.Class]
	at := slices.Index(c.items, item)
	if at < 0 {
		return false
	}
	c.remove(at)
	q.length--
	return true
}

// All yields the items in the order in which they would be served.
func (q *Queue[K, V]) All() iter.Seq[*Item[K, V]] {
	return func(yield func(*Item[K, V]) bool) {
		for i := range q.classes {
			for _, item := range q.classes[i].items {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// Len is the number of items.
func (q *Queue[K, V]) Len() int { return q.length }

// LenClass is the number of items of one class.
func (q *Queue[K, V]) LenClass(class int) int {
	if class >= len(q.classes) {
		return 0
	}
	return len(q.classes[class].items)
}

// Forget deletes what owners were charged in each class that has no items: there all
// owners are equal again. A caller does it when a class is idle.
func (q *Queue[K, V]) Forget() {
	for i := range q.classes {
		if c := &q.classes[i]; len(c.items) == 0 {
			*c = class[K, V]{}
		}
	}
}
