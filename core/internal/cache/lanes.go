package cache

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Lanes is this core's copy of lanes and queue settings, at most one refresh behind the tables. A
// missing entry costs a wait, a stale one (a queue paused in another core) lasts one refresh.
type Lanes struct {
	store *cell.Cell

	mu       sync.RWMutex
	byID     map[lanes.ID]lanes.Lane
	byKey    map[lanes.Key]lanes.Lane
	byQueue  map[tenant.QueueKey][]lanes.Lane
	byName   map[string][]lanes.Lane
	settings map[tenant.QueueKey]queues.Settings
	// inPush are the queues in push mode.
	inPush scheduler.Ring[tenant.QueueKey]
	// pushChanges counts the changes of what is pushed where.
	pushChanges int
	highest     lanes.ID
	changed     time.Time
	// retired is the latest time at which a lane was retired.
	retired time.Time
	// recent are lanes created here, or read, and when. The second full Refresh drops an entry: one
	// that runs at that time may have read before the lane was committed.
	recent map[lanes.ID]time.Time
	// full are bounds that prevented a lane, and when.
	full map[fullKey]time.Time
	// read is the start of the last successful refresh.
	read time.Time
	// begun numbers the refreshes, applied is the last one whose settings were applied. Of two
	// concurrent refreshes the first may end last, with older settings.
	begun, applied int
	// fullRead is when all lanes were last read.
	fullRead time.Time
	// forgotten counts the calls of Forget.
	forgotten int
}

// NewLanes makes an empty cache; Refresh fills it.
func NewLanes(store *cell.Cell) *Lanes {
	return &Lanes{
		store:    store,
		byID:     map[lanes.ID]lanes.Lane{},
		byKey:    map[lanes.Key]lanes.Lane{},
		byQueue:  map[tenant.QueueKey][]lanes.Lane{},
		byName:   map[string][]lanes.Lane{},
		settings: map[tenant.QueueKey]queues.Settings{},
		recent:   map[lanes.ID]time.Time{},
		full:     map[fullKey]time.Time{},
	}
}

// errForgotten ends a refresh that may have read from the primary before.
var errForgotten = errors.New("cache: PostgreSQL has a new primary")

const (
	// A lane's id is drawn before its commit: ids below the highest one may still appear.
	lateLanes = 1000
	// A lane that appears later still is found by a full read.
	fullReadEvery = time.Minute
	// The same for times of change.
	lateChanges = time.Minute
)

// Refresh reads changes from the tables, and gives the lanes that were created and deleted.
func (l *Lanes) Refresh(ctx context.Context) (created []lanes.Lane, gone []lanes.ID, err error) {
	l.mu.Lock()
	l.begun++
	number := l.begun
	after, since, retired := max(l.highest-lateLanes, 0), l.changed.Add(-lateChanges), l.retired.Add(-lateChanges)
	begun, whole := time.Now(), time.Since(l.fullRead) > fullReadEvery
	forgotten := l.forgotten
	l.mu.Unlock()
	if whole { // settings too: PostgreSQL's clock may have been set back
		after, since, retired = 0, time.Time{}, time.Time{}
	}
	queues, err := l.store.Queues.Since(ctx, since)
	if err != nil {
		return nil, nil, err
	}
	lanes, err := l.store.Lanes.After(ctx, after, retired)
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if forgotten != l.forgotten {
		return nil, nil, errForgotten
	}
	if number < l.applied {
		queues = nil
	} else if whole {
		l.keepOnly(queues)
	}
	l.applied = max(l.applied, number)
	for _, q := range queues {
		if known := l.settings[q.QueueKey]; (q.Push || known.Push) && !q.SameTarget(&known) {
			l.pushChanges++
		}
		if q.Push != l.settings[q.QueueKey].Push {
			if q.Push {
				l.inPush.Add(q.QueueKey)
			} else {
				l.inPush.Remove(q.QueueKey)
			}
		}
		if q.Deleted {
			delete(l.settings, q.QueueKey)
		} else {
			l.settings[q.QueueKey] = q
		}
		if q.UpdatedAt.After(l.changed) {
			l.changed = q.UpdatedAt
		}
	}
	for _, lane := range lanes {
		if l.add(lane.Lane) {
			created = append(created, lane.Lane)
			l.recent[lane.ID] = time.Now()
		}
		l.retire(lane, begun)
	}
	if whole {
		gone = l.removeAllBut(lanes, begun)
		l.fullRead = begun
	}
	if begun.After(l.read) {
		l.read = begun
	}
	return created, gone, nil
}

// keepOnly drops the settings of queues that are not among queues: they were deleted long ago. The caller
// holds the lock.
func (l *Lanes) keepOnly(queues []queues.Settings) {
	exists := make(map[tenant.QueueKey]bool, len(queues))
	for i := range queues {
		exists[queues[i].QueueKey] = true
	}
	for key, settings := range l.settings {
		if !exists[key] {
			if settings.Push {
				l.inPush.Remove(key)
				l.pushChanges++
			}
			delete(l.settings, key)
		}
	}
}

// retire removes a retired lane from those in which new jobs are stored, and adds one that is in
// use again. The caller holds the lock.
func (l *Lanes) retire(lane lanes.Row, begun time.Time) {
	if lane.RetiredAt == nil {
		l.byKey[lane.Key] = lane.Lane
		return
	}
	if lane.RetiredAt.After(l.retired) {
		l.retired = *lane.RetiredAt
	}
	if l.byKey[lane.Key].ID == lane.ID && !l.recent[lane.ID].After(begun) {
		delete(l.byKey, lane.Key)
	}
}

// removeAllBut drops the lanes that are not among lanes, all that were read from begun on. The
// caller holds the lock.
func (l *Lanes) removeAllBut(read []lanes.Row, begun time.Time) (gone []lanes.ID) {
	exists := make(map[lanes.ID]bool, len(read))
	for _, lane := range read {
		exists[lane.ID] = true
	}
	for id, at := range l.recent {
		if at.Before(begun) {
			delete(l.recent, id)
		} else {
			exists[id] = true
		}
	}
	queues, names := map[tenant.QueueKey]bool{}, map[string]bool{}
	for id, lane := range l.byID {
		if exists[id] {
			continue
		}
		gone = append(gone, id)
		delete(l.byID, id)
		if l.byKey[lane.Key].ID == id {
			delete(l.byKey, lane.Key)
		}
		queues[lane.InQueue()], names[lane.Queue] = true, true
	}
	isGone := func(lane lanes.Lane) bool { return !exists[lane.ID] }
	for key := range queues {
		trim(l.byQueue, key, isGone)
	}
	for name := range names {
		trim(l.byName, name, isGone)
	}
	return gone
}

// trim removes deleted lanes from one of the lists.
func trim[K comparable](lists map[K][]lanes.Lane, key K, isGone func(lanes.Lane) bool) {
	if lists[key] = slices.DeleteFunc(lists[key], isGone); len(lists[key]) == 0 {
		delete(lists, key)
	}
}

// add says whether a lane is new. The caller holds the lock.
func (l *Lanes) add(lane lanes.Lane) bool {
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
	l.fullRead = time.Time{}
}

// Forget drops all lanes, and gives them; the next refresh reads all. After a failover to a standby
// that lagged the ids of lanes that were lost are drawn again, for others. Queues keep their settings
// until then: a paused one must not look open.
func (l *Lanes) Forget() (gone []lanes.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone = slices.Collect(maps.Keys(l.byID))
	clear(l.byID)
	clear(l.byKey)
	clear(l.byQueue)
	clear(l.byName)
	clear(l.recent)
	clear(l.full)
	l.highest, l.fullRead = 0, time.Time{}
	// A refresh under way has read from the server before.
	l.forgotten++
	return gone
}

// Settings gives a queue's settings; the zero value, all defaults, for an unknown queue.
func (l *Lanes) Settings(owner tenant.ID, name string) queues.Settings {
	key := tenant.QueueKey{Tenant: owner, Name: name}
	l.mu.RLock()
	defer l.mu.RUnlock()
	settings := l.settings[key]
	settings.QueueKey = key
	return settings
}

// Open says whether jobs of a queue may start, and whether it is in push mode if push is set.
func (l *Lanes) Open(key tenant.QueueKey, push bool) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	settings := l.settings[key]
	return !settings.Stopped() && settings.Push == push
}

// Serving lists up to most lanes that the filter matches and that are not paused, each once; offset
// selects which of more.
func (l *Lanes) Serving(f *scheduler.Filter, offset uint64, most int) (serving []lanes.ID) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	var capacity scheduler.Capacity
	if f.Capacity != nil {
		capacity = f.Capacity()
	}
	lists := l.named(f)
	for i := range lists {
		lanes := lists[(offset+uint64(i))%uint64(len(lists))]
		for j := range lanes {
			lane := lanes[(offset*uint64(most)+uint64(j))%uint64(len(lanes))] //nolint:gosec // never negative
			key := lane.InQueue()
			settings := l.settings[key]
			if settings.Stopped() || settings.Push != f.Push || !f.Serves(&lane) || capacity != nil && capacity.Of(key) <= 0 {
				continue
			}
			if serving = append(serving, lane.ID); len(serving) == most {
				return serving
			}
		}
	}
	return serving
}

// named gives the lanes of the filter's queues, each once. The caller holds the lock.
func (l *Lanes) named(f *scheduler.Filter) [][]lanes.Lane {
	var lists [][]lanes.Lane
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

// PushQueues gives up to n queues in push mode, from an offset; all is the number of them.
func (l *Lanes) PushQueues(offset uint64, n int) (some []tenant.QueueKey, all int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return slices.Collect(l.inPush.From(offset, n)), len(l.inPush.Items)
}

// ByID gives a cached lane.
func (l *Lanes) ByID(id lanes.ID) (lanes.Lane, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	lane, known := l.byID[id]
	return lane, known
}

// Of gives the cached lanes of a queue.
func (l *Lanes) Of(key tenant.QueueKey) []lanes.Lane {
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

// PushSettings gives the settings of the queues in push mode, and a number that is another after each change of them; no
// settings where it is still the number given.
func (l *Lanes) PushSettings(known int) (changed []queues.Settings, changes int) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if known == l.pushChanges {
		return nil, known
	}
	changed = make([]queues.Settings, len(l.inPush.Items))
	for i, key := range l.inPush.Items {
		changed[i] = l.settings[key]
	}
	return changed, l.pushChanges
}
