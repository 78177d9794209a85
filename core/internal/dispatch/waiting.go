package dispatch

import (
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// waiting holds the lines in which jobs are thought to wait, by queue and priority, and the
// queues that have some, by name: a claim finds its lines without a look at the others.
// It is guarded by the lock of lines.
type waiting struct {
	queues map[tenant.QueueKey]*waitingQueue
	names  map[string]*ring[*waitingQueue]
}

type waitingQueue struct {
	key   tenant.QueueKey
	by    [api.MaxPriority + 1]ring[*laneLines]
	lines int
}

func (w *waiting) add(lane *laneLines, priority int16) {
	key := lane.lane.InQueue()
	if w.queues == nil {
		w.queues, w.names = map[tenant.QueueKey]*waitingQueue{}, map[string]*ring[*waitingQueue]{}
	}
	one := w.queues[key]
	if one == nil {
		one = &waitingQueue{key: key}
		w.queues[key] = one
		if w.names[key.Name] == nil {
			w.names[key.Name] = &ring[*waitingQueue]{}
		}
		w.names[key.Name].add(one)
	}
	one.by[priority].add(lane)
	one.lines++
}

func (w *waiting) remove(lane *laneLines, priority int16) {
	key := lane.lane.InQueue()
	one := w.queues[key]
	one.by[priority].remove(lane)
	if one.lines--; one.lines > 0 {
		return
	}
	delete(w.queues, key)
	if w.names[key.Name].remove(one); len(w.names[key.Name].items) == 0 {
		delete(w.names, key.Name)
	}
}

// serves says whether a line waits here of a lane that the filter serves.
func (w *waitingQueue) serves(filter *Filter) bool {
	for priority := range w.by {
		for _, lane := range w.by[priority].items {
			if filter.serves(lane.lane) {
				return true
			}
		}
	}
	return false
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

// queuesOf looks at up to n queues of a name, of any tenants, in which jobs are thought to
// wait, from a turn on, and gives those with a lane that the filter serves; all is how many
// queues there are.
func (l *lines) queuesOf(name string, filter *Filter, turn uint64, n int) (some []tenant.QueueKey, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.waiting.names[name]
	if of == nil {
		return nil, 0
	}
	for _, one := range of.from(turn, n) {
		if one.serves(filter) {
			some = append(some, one.key)
		}
	}
	return some, len(of.items)
}

// readyIn gives up to most lines of queues in which jobs are thought to wait, of lanes that
// the filter serves: high priorities first, among equals another one first each turn.
func (l *lines) readyIn(keys []tenant.QueueKey, filter *Filter, turn uint64, most int) (found []line) {
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
				known := lanes[(turn+uint64(j))%uint64(len(lanes))]
				if !filter.serves(known.lane) {
					continue
				}
				b := &known.by[priority]
				found = append(found, line{queue.Line{Lane: known.lane.ID, Priority: priority, After: b.after}, known.lane, b.heard, b.lowered})
				if len(found) == most {
					return found
				}
			}
		}
	}
	return found
}

// waitsIn says whether readyIn would find a line in a queue.
func (l *lines) waitsIn(key tenant.QueueKey, filter *Filter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.waiting.queues[key]
	return of != nil && of.serves(filter)
}
