package scheduler

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// waiting holds the ready lists by queue and priority, and their queues by name: a claim finds its
// lists without visiting the others. It is guarded by the lock of ReadyLists.
type waiting struct {
	queues map[tenant.QueueKey]*waitingQueue
	names  map[string]*Ring[*waitingQueue]
}

type waitingQueue struct {
	key   tenant.QueueKey
	lists int
	// priorities has a bit for each priority with a ready list.
	priorities uint16
	by         [api.MaxPriority + 1]waitingLists
}

// waitingLists are a queue's ready lists of one priority.
type waitingLists struct {
	Ring[*laneLists]
	// types are the same by the type of their jobs: those of one type differ in tags and users.
	types map[string][]*laneLists
}

func (w *waitingLists) add(lane *laneLists) {
	w.Add(lane)
	if w.types == nil {
		w.types = map[string][]*laneLists{}
	}
	w.types[lane.lane.Type] = append(w.types[lane.lane.Type], lane)
}

func (w *waitingLists) remove(lane *laneLists) {
	w.Remove(lane)
	of := w.types[lane.lane.Type]
	if len(of) == 1 {
		delete(w.types, lane.lane.Type)
		return
	}
	last := len(of) - 1
	of[slices.Index(of, lane)], of[last] = of[last], nil
	w.types[lane.lane.Type] = of[:last]
}

// served iterates over the lists that the filter serves, from an offset. For a filter by type it
// visits no list of another type where there are more lists than types.
func (w *waitingLists) served(filter *Filter, offset uint64) iter.Seq[*laneLists] {
	return func(yield func(*laneLists) bool) {
		if filter.Types == nil || filter.Push || len(w.Items) <= len(filter.Types) {
			for list := range w.From(offset, len(w.Items)) {
				if filter.Serves(&list.lane) && !yield(list) {
					return
				}
			}
			return
		}
		for jobType := range filter.Types {
			of := w.types[jobType]
			for i := range of {
				list := of[(offset+uint64(i))%uint64(len(of))]
				if filter.Serves(&list.lane) && !yield(list) {
					return
				}
			}
		}
	}
}

func (w *waiting) add(lane *laneLists, priority int16) {
	key := lane.lane.InQueue()
	if w.queues == nil {
		w.queues, w.names = map[tenant.QueueKey]*waitingQueue{}, map[string]*Ring[*waitingQueue]{}
	}
	one := w.queues[key]
	if one == nil {
		one = &waitingQueue{key: key}
		w.queues[key] = one
		if w.names[key.Name] == nil {
			w.names[key.Name] = &Ring[*waitingQueue]{}
		}
		w.names[key.Name].Add(one)
	}
	one.by[priority].add(lane)
	one.priorities |= 1 << priority
	one.lists++
}

func (w *waiting) remove(lane *laneLists, priority int16) {
	key := lane.lane.InQueue()
	one := w.queues[key]
	if one.by[priority].remove(lane); len(one.by[priority].Items) == 0 {
		one.priorities &^= 1 << priority
	}
	if one.lists--; one.lists > 0 {
		return
	}
	delete(w.queues, key)
	if w.names[key.Name].Remove(one); len(w.names[key.Name].Items) == 0 {
		delete(w.names, key.Name)
	}
}

// serves says whether it has a ready list of a lane that the filter serves.
func (w *waitingQueue) serves(filter *Filter) bool {
	for left := w.priorities; left != 0; left &= left - 1 {
		priority := bits.TrailingZeros16(left)
		for range w.by[priority].served(filter, 0) {
			return true
		}
	}
	return false
}

// Ring is a set that can be iterated from any offset.
type Ring[T comparable] struct {
	Items []T
	at    map[T]int
}

// Add inserts an item.
func (r *Ring[T]) Add(item T) {
	if r.at == nil {
		r.at = map[T]int{}
	}
	r.at[item] = len(r.Items)
	r.Items = append(r.Items, item)
}

// Remove deletes an item, which must be in it.
func (r *Ring[T]) Remove(item T) {
	place, last := r.at[item], len(r.Items)-1
	r.Items[place] = r.Items[last]
	r.at[r.Items[place]] = place
	r.Items = r.Items[:last]
	delete(r.at, item)
}

// From iterates over up to n items, starting at offset.
func (r *Ring[T]) From(offset uint64, n int) iter.Seq[T] {
	return func(yield func(T) bool) {
		size := len(r.Items)
		for i := range min(n, size) {
			if !yield(r.Items[(offset+uint64(i))%uint64(size)]) {
				return
			}
		}
	}
}

// QueuesOf visits up to n queues of a name, of any tenants, with a ready list, from an offset, and
// gives those with a lane that the filter serves; all is the number of queues.
func (l *ReadyLists) QueuesOf(name string, filter *Filter, offset uint64, n int) (some []tenant.QueueKey, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.waiting.names[name]
	if of == nil {
		return nil, 0
	}
	some = make([]tenant.QueueKey, 0, min(n, len(of.Items)))
	for one := range of.From(offset, n) {
		if one.serves(filter) {
			some = append(some, one.key)
		}
	}
	return some, len(of.Items)
}

// ReadyIn gives up to most ready lists of queues, of lanes that the filter serves: high priorities
// first. Offset selects the first queue, and which lists where there are more; those of one queue and
// priority take turns, in the order of their first jobs.
func (l *ReadyLists) ReadyIn(keys []tenant.QueueKey, filter *Filter, offset uint64, most int) (found []Planned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := 0
	for _, key := range keys {
		if of := l.waiting.queues[key]; of != nil {
			total += of.lists
		}
	}
	found = make([]Planned, 0, min(total, most))
	for priority := int16(api.MaxPriority); priority >= 0 && len(found) < total; priority-- {
		for i := range keys {
			key := keys[(offset+uint64(i))%uint64(len(keys))]
			of := l.waiting.queues[key]
			if of == nil || of.priorities&(1<<priority) == 0 {
				continue
			}
			begin := len(found)
			for known := range of.by[priority].served(filter, offset) {
				b := &known.by[priority]
				list := claim.ReadyList{Lane: known.lane.ID, Priority: priority, After: b.after}
				if found = append(found, Planned{list, &known.lane, b.turn, b.version, b.rewinds}); len(found) == most {
					break
				}
			}
			slices.SortFunc(found[begin:], func(a, b Planned) int { return a.turn.compare(b.turn) })
			if len(found) == most {
				return found
			}
		}
	}
	return found
}

// HasReady says whether ReadyIn would find a list in a queue.
func (l *ReadyLists) HasReady(key tenant.QueueKey, filter *Filter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.waiting.queues[key]
	return of != nil && of.serves(filter)
}

// AnyReady says whether a queue has a ready list.
func (l *ReadyLists) AnyReady(key tenant.QueueKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waiting.queues[key] != nil
}
