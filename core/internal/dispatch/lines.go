package dispatch

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/shared/api"
)

// lines is what this core believes of every line, one priority of a lane each:
// whether jobs wait in it, and behind which place, its cursor. A belief is a hint.
// Wake-ups set and lower it, claims correct it by what came back, and the nets find
// what both have missed.
//
//	               cursor
//	… ████████████████▼────────────▶ ready_at     █ claimed by now; under an old snapshot
//	      ▲           ▲                             the index is still full of them
//	 the scan's    look-back of a second
type lines struct {
	mu    sync.Mutex
	lanes map[queue.LaneID]*laneLines
	// full are lanes with lines that were set aside for a cap or a rate.
	full map[queue.LaneID]struct{}
}

type laneLines struct{ by [api.MaxPriority + 1]belief }

// belief is what is believed of one line.
type belief struct {
	// known says that there was ever a job in it.
	known bool
	// ready says that a job is thought to wait in it.
	ready bool
	after queue.Cursor
	// heard counts the news of it, lowered those that moved the cursor back: a claim
	// that was under way meanwhile does not know of them.
	heard, lowered uint64
}

// line is what a claim was planned with.
type line struct {
	queue.Line
	heard, lowered uint64
}

func newLines() *lines {
	return &lines{lanes: map[queue.LaneID]*laneLines{}, full: map[queue.LaneID]struct{}{}}
}

// hear takes news of jobs that can be claimed.
func (l *lines) hear(news []queue.Ready) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range news {
		if one.At.IsZero() {
			l.again(one.Lane)
			continue
		}
		if one.Priority < 0 || one.Priority > api.MaxPriority {
			continue // from another version
		}
		b := &l.of(one.Lane).by[one.Priority]
		if at := one.Cursor(); !b.known || at.Compare(b.after) < 0 {
			b.after = at
			b.lowered++
		}
		b.known, b.ready = true, true
		b.heard++
	}
}

// again makes what is known of a lane ready, for somebody to look again. It is
// called with the lock held.
func (l *lines) again(lane queue.LaneID) {
	if known := l.lanes[lane]; known != nil {
		for i := range known.by {
			if b := &known.by[i]; b.known {
				b.ready = true
				b.heard++
			}
		}
	}
}

func (l *lines) of(lane queue.LaneID) *laneLines {
	if l.lanes[lane] == nil {
		l.lanes[lane] = &laneLines{}
	}
	return l.lanes[lane]
}

// ready appends the lines of a lane in which jobs are thought to wait, high
// priorities first.
func (l *lines) ready(lane queue.LaneID, to []line) []line {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.lanes[lane]
	if known == nil {
		return to
	}
	for priority := len(known.by) - 1; priority >= 0; priority-- {
		if b := &known.by[priority]; b.ready {
			to = append(to, line{queue.Line{Lane: lane, Priority: int16(priority), After: b.after}, b.heard, b.lowered})
		}
	}
	return to
}

// isReady says whether jobs are thought to wait in a lane.
func (l *lines) isReady(lane queue.LaneID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.lanes[lane]
	for priority := 0; known != nil && priority < len(known.by); priority++ {
		if known.by[priority].ready {
			return true
		}
	}
	return false
}

// walked takes what a claim has seen of the lines that it was planned with.
func (l *lines) walked(planned map[lineKey]line, seen []queue.Walked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range seen {
		was, ok := planned[lineKey{w.Lane, w.Priority}]
		if !ok {
			continue
		}
		b := &l.of(w.Lane).by[w.Priority]
		if w.To.Compare(b.after) > 0 && b.lowered == was.lowered {
			b.after = w.To
		}
		if w.Dry && b.heard == was.heard {
			b.ready = false
			if w.Full {
				l.full[w.Lane] = struct{}{}
			}
		}
	}
}

// setAside gives the lanes with lines for which there was no room, in any order.
func (l *lines) setAside() []queue.LaneID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.full))
}

// room makes lanes ready that were set aside for want of it.
func (l *lines) room(lanes []queue.LaneID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range lanes {
		delete(l.full, lane)
		l.again(lane)
	}
}

// failed puts the cursors back to where a claim began that came to nothing, or of
// which nobody knows: another one may have passed what it had locked.
func (l *lines) failed(planned map[lineKey]line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, was := range planned {
		b := &l.of(key.lane).by[key.priority]
		if was.After.Compare(b.after) < 0 {
			b.after = was.After
			b.lowered++
		}
		b.ready = true
		b.heard++
	}
}

// cut puts the cursors of lines that a claim has not seen the end of back to where it
// ended: it had locked jobs behind that and left them, and whoever claimed meanwhile has
// passed them. It gives the news for those who did not find them.
func (l *lines) cut(planned map[lineKey]line, seen []queue.Walked) (news []queue.Ready) {
	ended := map[lineKey]queue.Walked{}
	for _, w := range seen {
		ended[lineKey{w.Lane, w.Priority}] = w
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, was := range planned {
		w := ended[key]
		if w.Dry {
			continue
		}
		to := was.After
		if w.To.Compare(to) > 0 {
			to = w.To
		}
		b := &l.of(key.lane).by[key.priority]
		if to.Compare(b.after) < 0 {
			b.after = to
		}
		b.lowered++
		b.heard++
		b.ready = true
		if !to.At.IsZero() {
			behind := to.After()
			news = append(news, queue.Ready{Lane: key.lane, Priority: key.priority, At: behind.At, ID: behind.ID})
		}
	}
	return news
}

// forget drops lanes that are gone.
func (l *lines) forget(lanes []queue.LaneID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range lanes {
		delete(l.lanes, lane)
		delete(l.full, lane)
	}
}

type lineKey struct {
	lane     queue.LaneID
	priority int16
}

func (k lineKey) less(other lineKey) bool {
	return k.lane < other.lane || k.lane == other.lane && k.priority < other.priority
}

// lookBack is how far behind its cursor a line is looked at: jobs that were stored
// before, and committed after, a claim passed them.
const lookBack = time.Second

// known gives up to most lines behind from, in order, each from its look-back, and
// where to go on; the zero key once it has come to the end. wanted, if not nil, says
// of a lane whether to.
func (l *lines) known(from lineKey, most int, wanted func(queue.LaneID) bool) ([]queue.Line, lineKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []lineKey
	for lane, known := range l.lanes {
		if lane < from.lane || wanted != nil && !wanted(lane) {
			continue
		}
		for priority := range known.by {
			key := lineKey{lane, int16(priority)}
			if known.by[priority].known && from.less(key) {
				found = append(found, key)
			}
		}
	}
	sortLines(found)
	next := lineKey{}
	if len(found) > most {
		found = found[:most]
		next = found[most-1]
	}
	looked := make([]queue.Line, len(found))
	for i, key := range found {
		after := l.lanes[key.lane].by[key.priority].after
		if !after.At.IsZero() {
			after = queue.Cursor{At: after.At.Add(-lookBack)}
		}
		looked[i] = queue.Line{Lane: key.lane, Priority: key.priority, After: after}
	}
	return looked, next
}

// all gives every line of the lanes, known or not, each from its look-back.
func (l *lines) all(lanes []queue.LaneID) []queue.Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := make([]queue.Line, 0, len(lanes)*(api.MaxPriority+1))
	for _, lane := range lanes {
		for priority := range int16(api.MaxPriority + 1) {
			one := queue.Line{Lane: lane, Priority: priority}
			if known := l.lanes[lane]; known != nil && known.by[priority].known && !known.by[priority].after.At.IsZero() {
				one.After = queue.Cursor{At: known.by[priority].after.At.Add(-lookBack)}
			}
			found = append(found, one)
		}
	}
	return found
}
