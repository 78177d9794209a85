package scheduler

import (
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// waiting holds the lists that are ready, by queue and priority, and the queues that have
// some, by name: a claim finds its lists without a look at the others. It is guarded by the
// lock of ReadyLists.
type waiting struct {
	queues map[tenant.QueueKey]*waitingQueue
	names  map[string]*Ring[*waitingQueue]
}

type waitingQueue struct {
	key   tenant.QueueKey
	by    [api.MaxPriority + 1]Ring[*laneLists]
	lines int
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
	one.by[priority].Add(lane)
	one.lines++
}

func (w *waiting) remove(lane *laneLists, priority int16) {
	key := lane.lane.InQueue()
	one := w.queues[key]
	one.by[priority].Remove(lane)
	if one.lines--; one.lines > 0 {
		return
	}
	delete(w.queues, key)
	if w.names[key.Name].Remove(one); len(w.names[key.Name].Items) == 0 {
		delete(w.names, key.Name)
	}
}

// serves says whether a list is ready here of a lane that the filter serves.
func (w *waitingQueue) serves(filter *Filter) bool {
	for priority := range w.by {
		for _, lane := range w.by[priority].Items {
			if filter.Serves(lane.lane) {
				return true
			}
		}
	}
	return false
}

// Ring is a set that is gone round from any place on.
type Ring[T comparable] struct {
	Items []T
	at    map[T]int
}

// Add puts an item into it.
func (r *Ring[T]) Add(item T) {
	if r.at == nil {
		r.at = map[T]int{}
	}
	r.at[item] = len(r.Items)
	r.Items = append(r.Items, item)
}

// Remove takes an item out, which must be in it.
func (r *Ring[T]) Remove(item T) {
	place, last := r.at[item], len(r.Items)-1
	r.Items[place] = r.Items[last]
	r.at[r.Items[place]] = place
	r.Items = r.Items[:last]
	delete(r.at, item)
}

// From gives up to n items, the first of them the one at turn.
func (r *Ring[T]) From(turn uint64, n int) []T {
	size := len(r.Items)
	some := make([]T, 0, min(n, size))
	for i := range cap(some) {
		some = append(some, r.Items[(turn+uint64(i))%uint64(size)])
	}
	return some
}

// QueuesOf looks at up to n queues of a name, of any tenants, with a ready list, from a turn on, and gives those with a lane that the filter serves; all is how many
// queues there are.
func (l *ReadyLists) QueuesOf(name string, filter *Filter, turn uint64, n int) (some []tenant.QueueKey, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.waiting.names[name]
	if of == nil {
		return nil, 0
	}
	for _, one := range of.From(turn, n) {
		if one.serves(filter) {
			some = append(some, one.key)
		}
	}
	return some, len(of.Items)
}

// ReadyIn gives up to most lines of queues in which jobs are thought to wait, of lanes that
// the filter serves: high priorities first, among equals another one first each turn.
func (l *ReadyLists) ReadyIn(keys []tenant.QueueKey, filter *Filter, turn uint64, most int) (found []Planned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for priority := int16(api.MaxPriority); priority >= 0; priority-- {
		for i := range keys {
			key := keys[(turn+uint64(i))%uint64(len(keys))]
			of := l.waiting.queues[key]
			if of == nil {
				continue
			}
			lanes := of.by[priority].Items
			for j := range lanes {
				known := lanes[(turn+uint64(j))%uint64(len(lanes))]
				if !filter.Serves(known.lane) {
					continue
				}
				b := &known.by[priority]
				found = append(found, Planned{queue.ReadyList{Lane: known.lane.ID, Priority: priority, After: b.after}, known.lane, b.version, b.rewinds})
				if len(found) == most {
					return found
				}
			}
		}
	}
	return found
}

// HasReady says whether readyIn would find a line in a queue.
func (l *ReadyLists) HasReady(key tenant.QueueKey, filter *Filter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.waiting.queues[key]
	return of != nil && of.serves(filter)
}
