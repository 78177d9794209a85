package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
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
	lanes map[directory.LaneID]*laneLines
	// order are the lanes by id, for rounds that go on where the last one ended.
	order []directory.LaneID
	// waiting are the lines in which jobs are thought to wait, by queue.
	waiting waiting
	// full are lanes with lines that were set aside for a cap or a rate, by tenant.
	full map[tenant.ID]map[directory.LaneID]struct{}
	// find tells whose a lane is, if that is known already.
	find func(directory.LaneID) (directory.Lane, bool)
}

type laneLines struct {
	by [api.MaxPriority + 1]belief
	// lane is known if placed; until then its lines are not among those that wait.
	lane   directory.Lane
	placed bool
}

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
	lane           directory.Lane
	heard, lowered uint64
}

func newLines(find func(directory.LaneID) (directory.Lane, bool)) *lines {
	return &lines{lanes: map[directory.LaneID]*laneLines{}, full: map[tenant.ID]map[directory.LaneID]struct{}{}, find: find}
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
		known := l.of(one.Lane)
		b := &known.by[one.Priority]
		if at := one.Cursor(); !b.known || at.Compare(b.after) < 0 {
			b.after = at
			b.lowered++
		}
		b.known = true
		b.heard++
		l.believe(known, one.Priority, true)
	}
}

// again makes what is known of a lane ready, for somebody to look again. It is
// called with the lock held.
func (l *lines) again(lane directory.LaneID) {
	if known := l.lanes[lane]; known != nil {
		l.of(lane) // it may be known by now whose it is
		for priority := range int16(len(known.by)) {
			if b := &known.by[priority]; b.known {
				b.heard++
				l.believe(known, priority, true)
			}
		}
	}
}

// of gives a lane's lines. It is called with the lock held.
func (l *lines) of(id directory.LaneID) *laneLines {
	known := l.lanes[id]
	if known == nil {
		known = &laneLines{lane: directory.Lane{ID: id}}
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

// place takes in whose a lane is.
func (l *lines) place(known *laneLines, lane directory.Lane) {
	known.lane, known.placed = lane, true
	for priority := range int16(len(known.by)) {
		if known.by[priority].ready {
			l.waiting.add(known, priority)
		}
	}
}

// believe says whether jobs are thought to wait in a line.
func (l *lines) believe(known *laneLines, priority int16, ready bool) {
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

// born takes in whose a lane is that has just become known, and says whether jobs are
// thought to wait in it.
func (l *lines) born(lane directory.Lane) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.lanes[lane.ID]
	if known == nil {
		return false
	}
	if !known.placed {
		l.place(known, lane)
	}
	return slices.ContainsFunc(known.by[:], func(b belief) bool { return b.ready })
}

// forget drops what is believed of lanes that are no more.
func (l *lines) forget(gone []directory.LaneID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range gone {
		known := l.lanes[id]
		if known == nil {
			continue
		}
		for priority := range int16(len(known.by)) {
			l.believe(known, priority, false)
		}
		l.notFull(known.lane)
		delete(l.lanes, id)
	}
	if len(gone) > 0 {
		l.order = slices.DeleteFunc(l.order, func(id directory.LaneID) bool { return l.lanes[id] == nil })
	}
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
		known := l.of(w.Lane)
		b := &known.by[w.Priority]
		if w.To.Compare(b.after) > 0 && b.lowered == was.lowered {
			b.after = w.To
		}
		if w.Dry && b.heard == was.heard {
			l.believe(known, w.Priority, false)
			if w.Full {
				l.isFull(known.lane)
			}
		}
	}
}

func (l *lines) isFull(lane directory.Lane) {
	if l.full[lane.Tenant] == nil {
		l.full[lane.Tenant] = map[directory.LaneID]struct{}{}
	}
	l.full[lane.Tenant][lane.ID] = struct{}{}
}

func (l *lines) notFull(lane directory.Lane) {
	if delete(l.full[lane.Tenant], lane.ID); len(l.full[lane.Tenant]) == 0 {
		delete(l.full, lane.Tenant)
	}
}

// room makes up to most lanes ready that were set aside for want of it, a tenant's or
// anybody's, and gives them, in any order.
func (l *lines) room(owner tenant.ID, anybodys bool, most int) (lanes []directory.Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	take := func(ids map[directory.LaneID]struct{}) {
		for id := range ids {
			if len(lanes) == most {
				return
			}
			lanes = append(lanes, l.of(id).lane)
		}
	}
	take(l.full[owner])
	for other, ids := range l.full {
		if anybodys && other != owner && len(lanes) < most {
			take(ids)
		}
		if !anybodys || len(lanes) == most {
			break
		}
	}
	for _, lane := range lanes {
		l.notFull(lane)
		l.again(lane.ID)
	}
	return lanes
}

// failed puts the cursors back to where a claim began that came to nothing, or of
// which nobody knows: another one may have passed what it had locked.
func (l *lines) failed(planned map[lineKey]line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, was := range planned {
		known := l.of(key.lane)
		b := &known.by[key.priority]
		if was.After.Compare(b.after) < 0 {
			b.after = was.After
			b.lowered++
		}
		b.heard++
		l.believe(known, key.priority, true)
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
		known := l.of(key.lane)
		b := &known.by[key.priority]
		if to.Compare(b.after) < 0 {
			b.after = to
		}
		b.lowered++
		b.heard++
		l.believe(known, key.priority, true)
		if !to.At.IsZero() {
			behind := to.After()
			news = append(news, queue.Ready{Lane: key.lane, Priority: key.priority, At: behind.At, ID: behind.ID})
		}
	}
	return news
}

type lineKey struct {
	lane     directory.LaneID
	priority int16
}

// lookBack is how far behind its cursor a line is looked at: jobs that were stored
// before, and committed after, a claim passed them.
const lookBack = time.Second

// known gives up to most lines behind from, in order, each from its look-back, and
// where to go on; the zero key once it has come to the end.
func (l *lines) known(from lineKey, most int) (looked []queue.Line, next lineKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	place, _ := slices.BinarySearch(l.order, from.lane)
	for ; place < len(l.order); place++ {
		id := l.order[place]
		lane := l.lanes[id]
		for priority := range int16(len(lane.by)) {
			if !lane.by[priority].known || id == from.lane && priority <= from.priority {
				continue
			}
			if len(looked) == most {
				last := looked[most-1]
				return looked, lineKey{last.Lane, last.Priority}
			}
			looked = append(looked, lane.lookBack(id, priority))
		}
	}
	return looked, lineKey{}
}

// lookBack is a line from its look-back; from its head where nothing is known of it.
func (l *laneLines) lookBack(id directory.LaneID, priority int16) queue.Line {
	line := queue.Line{Lane: id, Priority: priority}
	if b := &l.by[priority]; b.known && !b.after.At.IsZero() {
		line.After = queue.Cursor{At: b.after.At.Add(-lookBack)}
	}
	return line
}

// ofLanes gives up to most lines of lanes, each from its look-back: those that are known, or all
// that there can be.
func (l *lines) ofLanes(lanes []directory.LaneID, all bool, most int) []queue.Line {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []queue.Line
	for _, id := range lanes {
		lane := l.lanes[id]
		if lane == nil {
			if !all {
				continue
			}
			lane = &laneLines{}
		}
		for priority := range int16(len(lane.by)) {
			if len(found) == most {
				return found
			}
			if all || lane.by[priority].known {
				found = append(found, lane.lookBack(id, priority))
			}
		}
	}
	return found
}
