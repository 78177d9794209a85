package scheduler

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/shared/api"
)

// ReadyLists are the ready lists of all lanes, one for each priority: whether jobs wait in it, and
// after which position, its cursor. All state here is a hint. Notifications make a list ready and
// move its cursor back, claims correct it by their scan, and the fallback polls find what both have
// missed.
//
//	               cursor
//	… ████████████████▼────────────▶ ready_at     █ claimed; under an old snapshot
//	      ▲           ▲                             the index is still full of them
//	 the scan's    lookback of a second
type ReadyLists struct {
	mu    sync.Mutex
	lanes map[lanes.ID]*laneLists
	// order are the lanes by id, for scans that continue where the last one ended.
	order []lanes.ID
	// waiting are the lists that are ready, by queue.
	waiting   waiting
	throttled throttled
	// turns counts the turns of lists that were not exhausted.
	turns uint64
	// find gives a lane by its id, if it is cached.
	find func(lanes.ID) (lanes.Lane, bool)
}

type laneLists struct {
	// lane is known if placed; until then its lists are not in waiting.
	lane   lanes.Lane
	placed bool
	by     [api.MaxPriority + 1]readyState
}

// readyState is the state of one list.
type readyState struct {
	// known says that the list has had a job.
	known bool
	// older is where the cursor was a lookback or two ago, sample where it was at the time sampled.
	older, sample jobs.Cursor
	sampled       time.Time
	// ready says that a job probably waits in it.
	ready bool
	after jobs.Cursor
	// turn is its place among the lists of its queue and priority.
	turn turn
	// version counts the notifications, rewinds those that moved the cursor back. A claim compares
	// both to detect notifications since its plan.
	version, rewinds uint64
}

// turn orders lists: by their first job when they became ready, or where those were whose turn came
// with theirs, and then by the number of turns.
type turn struct {
	at     jobs.Cursor
	number uint64
}

func (t turn) compare(other turn) int {
	return cmp.Or(t.at.Compare(other.at), cmp.Compare(t.number, other.number))
}

// Planned is a list as a claim was planned with it.
type Planned struct {
	claim.ReadyList
	// In is the list's lane; it never changes.
	In               *lanes.Lane
	turn             turn
	version, rewinds uint64
}

// NewReadyLists makes them; find gives a lane by its id, if it is cached.
func NewReadyLists(find func(lanes.ID) (lanes.Lane, bool)) *ReadyLists {
	return &ReadyLists{lanes: map[lanes.ID]*laneLists{}, find: find}
}

// Notify records that jobs can be claimed.
func (l *ReadyLists) Notify(ready []jobs.Ready) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range ready {
		if one.At.IsZero() {
			l.again(one.Lane)
			continue
		}
		if one.Priority < 0 || one.Priority > api.MaxPriority {
			continue // sent over Redis, where others may write
		}
		known := l.of(one.Lane)
		b := &known.by[one.Priority]
		if at := one.Cursor(); !b.known || at.Compare(b.after) < 0 {
			b.moveBack(at)
			b.rewinds++
		}
		if at := one.Cursor(); !b.ready || at.Compare(b.turn.at) < 0 {
			b.turn = turn{at: at}
		}
		b.known = true
		b.version++
		l.setReady(known, one.Priority, true)
	}
}

// again makes the known lists of a lane ready: the next claim scans them. The caller holds the
// lock.
func (l *ReadyLists) again(lane lanes.ID) {
	if known := l.lanes[lane]; known != nil {
		l.of(lane) // sets the lane if it is cached by now
		for priority := range int16(len(known.by)) {
			if b := &known.by[priority]; b.known {
				b.version++
				l.setReady(known, priority, true)
			}
		}
	}
}

// of gives a lane's lists. The caller holds the lock.
func (l *ReadyLists) of(id lanes.ID) *laneLists {
	known := l.lanes[id]
	if known == nil {
		known = &laneLists{lane: lanes.Lane{ID: id}}
		l.lanes[id] = known
		place, _ := slices.BinarySearch(l.order, id)
		l.order = slices.Insert(l.order, place, id)
	}
	if !known.placed {
		if lane, found := l.find(id); found {
			l.place(known, lane)
		}
	}
	return known
}

// place sets the lane of its lists.
func (l *ReadyLists) place(known *laneLists, lane lanes.Lane) {
	known.lane, known.placed = lane, true
	for priority := range int16(len(known.by)) {
		if known.by[priority].ready {
			l.waiting.add(known, priority)
		}
	}
}

// setReady sets whether a list is ready.
func (l *ReadyLists) setReady(known *laneLists, priority int16, ready bool) {
	if known.by[priority].ready == ready {
		return
	}
	known.by[priority].ready = ready
	switch {
	case !known.placed:
	case ready:
		l.waiting.add(known, priority)
	default:
		l.waiting.remove(known, priority)
	}
}

// LaneCreated adds a lane that is now in the cache, and says whether one of its lists is ready.
func (l *ReadyLists) LaneCreated(lane lanes.Lane) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.lanes[lane.ID]
	if known == nil {
		return false
	}
	if !known.placed {
		l.place(known, lane)
	}
	return slices.ContainsFunc(known.by[:], func(b readyState) bool { return b.ready })
}

// Forget drops the lists of deleted lanes.
func (l *ReadyLists) Forget(gone []lanes.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range gone {
		known := l.lanes[id]
		if known == nil {
			continue
		}
		for priority := range int16(len(known.by)) {
			l.setReady(known, priority, false)
		}
		l.throttled.remove(known.lane)
		delete(l.lanes, id)
	}
	if len(gone) > 0 {
		l.order = slices.DeleteFunc(l.order, func(id lanes.ID) bool { return l.lanes[id] == nil })
	}
}

// Scanned applies how far a claim has scanned the lists of its plan.
func (l *ReadyLists) Scanned(planned []Planned, seen []claim.ScanProgress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last jobs.Cursor
	for i := range planned {
		if at := planned[i].turn.at; at.Compare(last) > 0 {
			last = at
		}
	}
	for _, w := range seen {
		if known := l.lanes[w.Lane]; known != nil && !w.To.At.IsZero() { // it had capacity
			l.throttled.remove(known.lane)
		}
	}
	for _, w := range seen {
		at := slices.IndexFunc(planned, func(p Planned) bool { return p.Lane == w.Lane && p.Priority == w.Priority })
		if at < 0 {
			continue
		}
		was := &planned[at]
		known := l.of(w.Lane)
		b := &known.by[w.Priority]
		if w.To.Compare(b.after) > 0 && b.rewinds == was.rewinds {
			b.remember(time.Now())
			b.after = w.To
		}
		if !w.Exhausted && !w.To.At.IsZero() { // the others that are ready come first
			l.turns++
			b.turn = turn{last, l.turns}
		}
		if w.Exhausted && b.version == was.version {
			l.setReady(known, w.Priority, false)
			if w.Throttled {
				l.throttled.add(known.lane, w.Full)
			}
		}
	}
}

// Failed moves the cursors back to where a failed claim began, or one with unknown outcome: other
// claims may have passed the jobs that it had locked.
func (l *ReadyLists) Failed(planned []Planned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range planned {
		was := &planned[i]
		known := l.of(was.Lane)
		b := &known.by[was.Priority]
		if was.After.Compare(b.after) < 0 {
			b.moveBack(was.After)
			b.rewinds++
		}
		b.version++
		l.setReady(known, was.Priority, true)
	}
}

// Cut moves the cursors of lists that a claim has not exhausted back to where it ended: it had
// locked later jobs and left them, and other claims have passed them since. It gives the
// notifications for these jobs.
func (l *ReadyLists) Cut(planned []Planned, seen []claim.ScanProgress) (ready []jobs.Ready) {
	ended := map[ListKey]claim.ScanProgress{}
	for _, w := range seen {
		ended[ListKey{w.Lane, w.Priority}] = w
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range planned {
		was := &planned[i]
		w := ended[ListKey{was.Lane, was.Priority}]
		if w.Exhausted {
			continue
		}
		to := was.After
		if w.To.Compare(to) > 0 {
			to = w.To
		}
		known := l.of(was.Lane)
		b := &known.by[was.Priority]
		if to.Compare(b.after) < 0 {
			b.moveBack(to)
		}
		b.rewinds++
		b.version++
		l.setReady(known, was.Priority, true)
		if !to.At.IsZero() {
			behind := to.After()
			ready = append(ready, jobs.Ready{Lane: was.Lane, Priority: was.Priority, At: behind.At, ID: behind.ID})
		}
	}
	return ready
}

// ListKey names a ready list.
type ListKey struct {
	Lane     lanes.ID
	Priority int16
}

// lookback is how far before its cursor a list is scanned: for jobs that were stored before a claim
// passed them and committed after.
const lookback = time.Second

// Known gives up to most lists after from, in order, each from its lookback, and where to continue;
// the zero key at the end.
func (l *ReadyLists) Known(from ListKey, most int) (looked []claim.ReadyList, next ListKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place, _ := slices.BinarySearch(l.order, from.Lane)
	for ; place < len(l.order); place++ {
		id := l.order[place]
		lane := l.lanes[id]
		for priority := range int16(len(lane.by)) {
			if !lane.by[priority].known || id == from.Lane && priority <= from.Priority {
				continue
			}
			if len(looked) == most {
				last := looked[most-1]
				return looked, ListKey{last.Lane, last.Priority}
			}
			looked = append(looked, lane.fromLookback(id, priority))
		}
	}
	return looked, ListKey{}
}

// fromLookback is a list from its lookback, or from its head without a cursor. In a fair lane positions are no times: there it
// begins where the cursor was.
func (l *laneLists) fromLookback(id lanes.ID, priority int16) claim.ReadyList {
	list := claim.ReadyList{Lane: id, Priority: priority}
	b := &l.by[priority]
	switch {
	case !b.known || b.after.At.IsZero():
	case l.lane.Fair:
		b.remember(time.Now())
		list.After = b.older
	default:
		list.After = jobs.Cursor{At: b.after.At.Add(-lookback)}
	}
	return list
}

// remember notes where the cursor is, once in a lookback.
func (b *readyState) remember(now time.Time) {
	if now.Sub(b.sampled) >= lookback {
		b.older, b.sample, b.sampled = b.sample, b.after, now
	}
}

// moveBack moves the cursor to a position before it, or to its first one.
func (b *readyState) moveBack(to jobs.Cursor) {
	b.after = to
	if !b.known || to.Compare(b.older) < 0 {
		b.older = to
	}
	if !b.known || to.Compare(b.sample) < 0 {
		b.sample = to
	}
}

// OfLanes gives up to most lists of lanes, each from its lookback: the known ones, or all possible
// ones. It leaves out lanes that are known to be under a full cap.
func (l *ReadyLists) OfLanes(lanes []lanes.ID, all bool, most int) []claim.ReadyList {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []claim.ReadyList
	for _, id := range lanes {
		lane := l.lanes[id]
		if lane == nil {
			if !all {
				continue
			}
			lane = &laneLists{}
		} else if l.throttled.capped(lane.lane) {
			continue
		}
		for priority := range int16(len(lane.by)) {
			if len(found) == most {
				return found
			}
			if all || lane.by[priority].known {
				found = append(found, lane.fromLookback(id, priority))
			}
		}
	}
	return found
}
