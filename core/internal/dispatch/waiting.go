package dispatch

import (
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/shared/api"
)

// waiting holds the lines in which jobs are thought to wait, by queue and priority, and the
// queues that have some, by name: a claim finds its lines without a look at the others.
// It is guarded by the lock of lines.
type waiting struct {
	queues map[queue.QueueKey]*waitingQueue
	names  map[string]*ring[queue.QueueKey]
}

type waitingQueue struct {
	by    [api.MaxPriority + 1]ring[queue.LaneID]
	lines int
}

func (w *waiting) add(lane queue.Lane, priority int16) {
	key := queue.QueueKey{Tenant: lane.Tenant, Name: lane.Queue}
	if w.queues == nil {
		w.queues, w.names = map[queue.QueueKey]*waitingQueue{}, map[string]*ring[queue.QueueKey]{}
	}
	if w.queues[key] == nil {
		w.queues[key] = &waitingQueue{}
		if w.names[key.Name] == nil {
			w.names[key.Name] = &ring[queue.QueueKey]{}
		}
		w.names[key.Name].add(key)
	}
	w.queues[key].by[priority].add(lane.ID)
	w.queues[key].lines++
}

func (w *waiting) remove(lane queue.Lane, priority int16) {
	key := queue.QueueKey{Tenant: lane.Tenant, Name: lane.Queue}
	one := w.queues[key]
	one.by[priority].remove(lane.ID)
	if one.lines--; one.lines > 0 {
		return
	}
	delete(w.queues, key)
	if w.names[key.Name].remove(key); len(w.names[key.Name].items) == 0 {
		delete(w.names, key.Name)
	}
}

// ring is a set that is gone round from any place on.
type ring[T comparable] struct {
	items []T
	at    map[T]int
}

func (r *ring[T]) add(item T) {
	if r.at == nil {
		r.at = map[T]int{}
	}
	r.at[item] = len(r.items)
	r.items = append(r.items, item)
}

func (r *ring[T]) remove(item T) {
	place, last := r.at[item], len(r.items)-1
	r.items[place] = r.items[last]
	r.at[r.items[place]] = place
	r.items = r.items[:last]
	delete(r.at, item)
}

// from gives up to n items, the first of them the one at turn.
func (r *ring[T]) from(turn uint64, n int) []T {
	size := len(r.items)
	some := make([]T, 0, min(n, size))
	for i := range cap(some) {
		some = append(some, r.items[(turn+uint64(i))%uint64(size)])
	}
	return some
}

// queuesOf gives up to n queues of a name, of any tenants, in which jobs are thought to
// wait, from a turn on; all is how many there are.
func (l *lines) queuesOf(name string, turn uint64, n int) (some []queue.QueueKey, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.waiting.names[name]
	if of == nil {
		return nil, 0
	}
	return of.from(turn, n), len(of.items)
}

// readyIn gives up to most lines of queues in which jobs are thought to wait, of lanes that
// the filter serves: high priorities first, among equals another one first each turn.
func (l *lines) readyIn(keys []queue.QueueKey, filter *Filter, turn uint64, most int) (found []line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for priority := int16(api.MaxPriority); priority >= 0; priority-- {
		for i := range keys {
			key := keys[(turn+uint64(i))%uint64(len(keys))]
			of := l.waiting.queues[key]
			if of == nil {
				continue
			}
			lanes := of.by[priority].items
			for j := range lanes {
				known := l.lanes[lanes[(turn+uint64(j))%uint64(len(lanes))]]
				if !filter.serves(known.lane) {
					continue
				}
				b := &known.by[priority]
				found = append(found, line{queue.Line{Lane: known.lane.ID, Priority: priority, After: b.after}, key, b.heard, b.lowered})
				if len(found) == most {
					return found
				}
			}
		}
	}
	return found
}

// waitsIn says whether readyIn would find a line in a queue.
func (l *lines) waitsIn(key queue.QueueKey, filter *Filter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.waiting.queues[key]
	if of == nil {
		return false
	}
	for priority := range of.by {
		for _, lane := range of.by[priority].items {
			if filter.serves(l.lanes[lane].lane) {
				return true
			}
		}
	}
	return false
}
