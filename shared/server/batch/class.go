package batch

import (
	"slices"
	"sort"
)

// class is the items of one class, in the order of start-time fair queueing (Goyal, Vin
// and Cheng, 1996): in virtual time an item starts where its owner's previous one ends,
// but not before the item that was served last, and ends its weight later. The earliest
// start is served first; equal ones in order of arrival. So an owner with many items
// waits behind its own, and not before others.
type class[K comparable, V any] struct {
	items []*Item[K, V]
	now   int64       // the start of the item that was served last
	ends  map[K]int64 // where each owner's last item ends, if after now
	purge int         // the size of ends at which entries that no longer matter are deleted
}

// minPurge is how many owners are remembered before any is looked at again.
const minPurge = 1024

// next is where the owner's next item would start.
func (c *class[K, V]) next(owner K) int64 {
	if len(c.ends) == 0 {
		return c.now
	}
	return max(c.now, c.ends[owner])
}

// add charges the owner and puts the item in its place.
func (c *class[K, V]) add(item *Item[K, V]) {
	item.start = c.next(item.Owner)
	if item.Weight > 0 {
		c.charge(item)
	}
	if n := len(c.items); n == 0 || item.start >= c.items[n-1].start { // always without owners
		c.items = append(c.items, item)
		return
	}
	at := sort.Search(len(c.items), func(i int) bool { return item.start < c.items[i].start })
	c.items = slices.Insert(c.items, at, item)
}

func (c *class[K, V]) charge(item *Item[K, V]) {
	if c.ends == nil {
		c.ends, c.purge = map[K]int64{}, minPurge
	}
	if len(c.ends) >= c.purge {
		for owner, end := range c.ends {
			if end <= c.now {
				delete(c.ends, owner)
			}
		}
		c.purge = max(minPurge, 2*len(c.ends))
	}
	c.ends[item.Owner] = item.start + int64(item.Weight)
}

// pop removes the first item, which is served.
func (c *class[K, V]) pop() *Item[K, V] {
	first := c.items[0]
	c.cut(0)
	c.now = max(c.now, first.start)
	return first
}

// remove removes an item that is not served. What its owner was charged for it goes to
// the owner's later items: they start earlier, in their order. Without that an owner
// whose items are all given up would wait behind what it never got.
func (c *class[K, V]) remove(at int) {
	removed := c.items[at]
	c.cut(at)
	end, charged := c.ends[removed.Owner]
	if !charged || removed.Weight <= 0 {
		return
	}
	weight := int64(removed.Weight)
	if c.ends[removed.Owner] = end - weight; end-weight <= c.now {
		delete(c.ends, removed.Owner)
	}
	if end == removed.start+weight {
		return // it was the owner's last
	}
	rest, inOrder := c.items[at:], true
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
func (c *class[K, V]) cut(at int) {
	switch {
	case len(c.items) == 1:
		c.items = nil // the array behind it may be long
	case at == 0:
		c.items[0] = nil
		c.items = c.items[1:]
	default:
		c.items = slices.Delete(c.items, at, at+1)
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
