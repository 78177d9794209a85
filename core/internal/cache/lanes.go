package cache

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Lanes is what this core knows of lanes and queue settings: a copy in memory,
// never more than a refresh behind the tables. What it does not know yet costs a
// wait, what it knows wrongly (a queue paused elsewhere) lasts one refresh.
type Lanes struct {
	store *cell.Cell

	mu       sync.RWMutex
	byID     map[directory.LaneID]directory.Lane
	byKey    map[directory.LaneKey]directory.Lane
	byQueue  map[tenant.QueueKey][]directory.Lane
	byName   map[string][]directory.Lane
	settings map[tenant.QueueKey]directory.QueueSettings
	// inPush are the queues in push mode.
	inPush  scheduler.Ring[tenant.QueueKey]
	highest directory.LaneID
	changed time.Time
	// retired is when the lane that was retired last was.
	retired time.Time
	// young are lanes made here, or read, and when; one is forgotten by the second full
	// Refresh. One under way meanwhile may have read before they were there.
	young map[directory.LaneID]time.Time
	// full are bounds that kept a lane from being made, and when.
	full map[fullKey]time.Time
	// read is when the last refresh that came to its end began.
	read time.Time
	// begun numbers the refreshes, applied is the last one whose settings were taken:
	// Of two at once the one that began first may end last, with what was true before.
	begun, applied int
	// whole is when all lanes were last read, and not only the new ones.
	whole time.Time
}

// NewLanes makes an empty cache; Refresh fills it.
func NewLanes(store *cell.Cell) *Lanes {
	return &Lanes{
		store:    store,
		byID:     map[directory.LaneID]directory.Lane{},
		byKey:    map[directory.LaneKey]directory.Lane{},
		byQueue:  map[tenant.QueueKey][]directory.Lane{},
		byName:   map[string][]directory.Lane{},
		settings: map[tenant.QueueKey]directory.QueueSettings{},
		young:    map[directory.LaneID]time.Time{},
		full:     map[fullKey]time.Time{},
	}
}

const (
	// A lane's number is handed out before it is committed: lanes somewhat below
	// the highest one seen may still appear.
	lateLanes = 1000
	// One that appears later still is found by reading all of them now and then.
	wholeEvery = time.Minute
	// The same for times of change.
	lateChanges = time.Minute
)

// Refresh reads what is new in the tables, and gives the lanes that were born, and
// those that are gone.
func (l *Lanes) Refresh(ctx context.Context) (born []directory.Lane, gone []directory.LaneID, err error) {
	l.mu.Lock()
	l.begun++
	number := l.begun
	after, since, retired := max(l.highest-lateLanes, 0), l.changed.Add(-lateChanges), l.retired.Add(-lateChanges)
	begun, whole := time.Now(), time.Since(l.whole) > wholeEvery
	l.mu.Unlock()
	if whole { // settings too: PostgreSQL's clock may have been set back
		after, since, retired = 0, time.Time{}, time.Time{}
	}
	queues, err := l.store.QueuesSince(ctx, since)
	if err != nil {
		return nil, nil, err
	}
	lanes, err := l.store.LanesAfter(ctx, after, retired)
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if number < l.applied {
		queues = nil
	}
	l.applied = max(l.applied, number)
	for _, q := range queues {
		if q.Push != l.settings[q.QueueKey].Push {
			if q.Push {
				l.inPush.Add(q.QueueKey)
			} else {
				l.inPush.Remove(q.QueueKey)
			}
		}
		l.settings[q.QueueKey] = q
		if q.UpdatedAt.After(l.changed) {
			l.changed = q.UpdatedAt
		}
	}
	for _, lane := range lanes {
		if l.add(lane.Lane) {
			born = append(born, lane.Lane)
			l.young[lane.ID] = time.Now()
		}
		l.retire(lane, begun)
	}
	if whole {
		gone = l.removeAllBut(lanes, begun)
		l.whole = begun
	}
	if begun.After(l.read) {
		l.read = begun
	}
	return born, gone, nil
}

// retire takes from a lane that was retired what new jobs are stored by, and gives it
// back to one that is in use again. It is called with the lock held.
func (l *Lanes) retire(lane directory.LaneRow, begun time.Time) {
	if lane.RetiredAt == nil {
		l.byKey[lane.LaneKey] = lane.Lane
		return
	}
	if lane.RetiredAt.After(l.retired) {
		l.retired = *lane.RetiredAt
	}
	if l.byKey[lane.LaneKey].ID == lane.ID && !l.young[lane.ID].After(begun) {
		delete(l.byKey, lane.LaneKey)
	}
}

// removeAllBut forgets the lanes that are not among all that there are, which were read
// from begun on. It is called with the lock held.
func (l *Lanes) removeAllBut(lanes []directory.LaneRow, begun time.Time) (gone []directory.LaneID) {
	there := make(map[directory.LaneID]bool, len(lanes))
	for _, lane := range lanes {
		there[lane.ID] = true
	}
	for id, at := range l.young {
		if at.Before(begun) {
			delete(l.young, id)
		} else {
			there[id] = true
		}
	}
	queues, names := map[tenant.QueueKey]bool{}, map[string]bool{}
	for id, lane := range l.byID {
		if there[id] {
			continue
		}
		gone = append(gone, id)
		delete(l.byID, id)
		if l.byKey[lane.LaneKey].ID == id {
			delete(l.byKey, lane.LaneKey)
		}
		queues[lane.InQueue()], names[lane.Queue] = true, true
	}
	isGone := func(lane directory.Lane) bool { return !there[lane.ID] }
	for key := range queues {
		trim(l.byQueue, key, isGone)
	}
	for name := range names {
		trim(l.byName, name, isGone)
	}
	return gone
}

// trim takes what is gone out of one of the lists.
func trim[K comparable](lists map[K][]directory.Lane, key K, isGone func(directory.Lane) bool) {
	if lists[key] = slices.DeleteFunc(lists[key], isGone); len(lists[key]) == 0 {
		delete(lists, key)
	}
}

// add says whether a lane was not known. It is called with the lock held.
func (l *Lanes) add(lane directory.Lane) bool {
	if _, known := l.byID[lane.ID]; known {
		return false
	}
	l.byID[lane.ID] = lane
	key := lane.InQueue()
	l.byQueue[key] = append(l.byQueue[key], lane)
	l.byName[lane.Queue] = append(l.byName[lane.Queue], lane)
	l.highest = max(l.highest, lane.ID)
	return true
}

// ReadAll makes the next refresh read all lanes.
func (l *Lanes) ReadAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole = time.Time{}
}

// Settings gives a queue's settings; the zero value, all defaults, for one that is
// not known.
func (l *Lanes) Settings(owner tenant.ID, name string) directory.QueueSettings {
	key := tenant.QueueKey{Tenant: owner, Name: name}
	l.mu.RLock()
	defer l.mu.RUnlock()
	settings := l.settings[key]
	settings.QueueKey = key
	return settings
}

// Open says whether a queue is not paused, and is in push mode or not as asked.
func (l *Lanes) Open(key tenant.QueueKey, push bool) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	settings := l.settings[key]
	return !settings.Paused && settings.Push == push
}

// Serving lists up to most lanes that the filter lets through and that are not paused,
// each once; of more, others each turn.
func (l *Lanes) Serving(f *scheduler.Filter, turn uint64, most int) (serving []directory.LaneID) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var room scheduler.Capacity
	if f.Capacity != nil {
		room = f.Capacity()
	}
	lists := l.named(f)
	for i := range lists {
		lanes := lists[(turn+uint64(i))%uint64(len(lists))]
		for j := range lanes {
			lane := lanes[(turn*uint64(most)+uint64(j))%uint64(len(lanes))] //nolint:gosec // never negative
			key := lane.InQueue()
			settings := l.settings[key]
			if settings.Paused || settings.Push != f.Push || !f.Serves(&lane) || room != nil && room.Of(key) <= 0 {
				continue
			}
			if serving = append(serving, lane.ID); len(serving) == most {
				return serving
			}
		}
	}
	return serving
}

// named gives the lanes of the queues that the filter names, each once. It is
// called with the lock held.
func (l *Lanes) named(f *scheduler.Filter) [][]directory.Lane {
	var lists [][]directory.Lane
	if f.Push {
		for _, key := range l.inPush.Items {
			lists = append(lists, l.byQueue[key])
		}
		return lists
	}
	seen := map[string]bool{}
	for _, name := range f.Queues {
		if seen[name] {
			continue
		}
		seen[name] = true
		if f.Owner != tenant.Platform {
			lists = append(lists, l.byQueue[tenant.QueueKey{Tenant: f.Owner, Name: name}])
		} else {
			lists = append(lists, l.byName[name])
		}
	}
	return lists
}

// PushQueues gives up to n queues in push mode, from a turn on; all is how many there are.
func (l *Lanes) PushQueues(turn uint64, n int) (some []tenant.QueueKey, all int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(l.inPush.From(turn, n)), len(l.inPush.Items)
}

// ByID gives a known lane.
func (l *Lanes) ByID(id directory.LaneID) (directory.Lane, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	lane, known := l.byID[id]
	return lane, known
}

// Of gives the known lanes of a queue.
func (l *Lanes) Of(key tenant.QueueKey) []directory.Lane {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Clone(l.byQueue[key])
}

// MayCapActive says whether any queue of the tenant has a cap on active jobs.
func (l *Lanes) MayCapActive(owner tenant.ID) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for key, settings := range l.settings {
		if key.Tenant == owner && settings.MaxActive != nil {
			return true
		}
	}
	return false
}

// PushSettings gives the settings of the queues in push mode.
func (l *Lanes) PushSettings() []directory.QueueSettings {
	l.mu.RLock()
	defer l.mu.RUnlock()
	queues := make([]directory.QueueSettings, len(l.inPush.Items))
	for i, key := range l.inPush.Items {
		queues[i] = l.settings[key]
	}
	return queues
}
