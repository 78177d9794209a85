package stats

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// maxMeters bounds the queues, users and tenants whose starts are counted in memory, half of them users; maxLanes
	// bounds the lanes of those queues.
	maxMeters = 40_000
	maxLanes  = 100_000
	// maxReported bounds a report: the lanes with the lowest rates are left out.
	maxReported = 2000
	// forgotten is when a queue without starts is forgotten.
	forgotten = 15 * time.Minute
	// heardFor is when the rates of other cores are to be read again, heardMost when they are no longer used.
	heardFor  = 2 * time.Second
	heardMost = 15 * time.Second
)

// RateKey names jobs whose starts are counted together: those of a queue, those of a user, or all of a tenant.
type RateKey struct {
	Tenant      tenant.ID
	Queue, User string
}

// Rates are how many jobs start in a second, here and in the other cores.
type Rates struct {
	// backlog says whether more jobs of a queue wait.
	backlog func(tenant.QueueKey) bool

	mu sync.Mutex
	// own are the starts of this core; lanes counts the lanes in it.
	own   map[RateKey]*line
	lanes int
	// others are the rates of the other cores together, by lane and by queue.
	others struct {
		lanes  map[lanes.ID]Pace
		queues map[tenant.QueueKey]Pace
	}
	// heard is when the rates of the others were read, asked when a caller was to read them.
	heard, asked time.Time
}

// line is a meter; a queue's has the part of each lane in its starts.
type line struct {
	meter
	all   decaying
	lanes map[lanes.ID]*decaying
}

// decaying is a number of starts that decays as the short and the long average of a meter.
type decaying struct {
	starts [2]float64
	at     time.Time
}

func (d *decaying) add(now time.Time, n int64) {
	for i := range d.starts {
		d.starts[i] = d.starts[i]*decayed(i, now.Sub(d.at)) + float64(n)
	}
	d.at = now
}

func newRates(backlog func(tenant.QueueKey) bool) *Rates {
	return &Rates{backlog: backlog, own: map[RateKey]*line{}}
}

// started counts the attempts that start among events.
func (r *Rates) started(now time.Time, events []Event) {
	isStart := func(e Event) bool { return e.Started > 0 }
	if !slices.ContainsFunc(events, isStart) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for begin := 0; begin < len(events); {
		// those of a queue mostly come together
		end := begin + 1
		for end < len(events) && events[end].QueueKey == events[begin].QueueKey {
			end++
		}
		r.ofQueue(now, events[begin:end])
		begin = end
	}
}

// ofQueue counts starts of one queue. The caller holds the lock.
func (r *Rates) ofQueue(now time.Time, events []Event) {
	var n int64
	var waited time.Duration
	for i := range events {
		if events[i].Started > 0 {
			n += events[i].Started
			waited = max(waited, events[i].Waiting)
		}
	}
	if n == 0 {
		return
	}
	key := events[0].QueueKey
	queue := r.meter(RateKey{Tenant: key.Tenant, Queue: key.Name})
	for i := range events {
		one := &events[i]
		if one.Started == 0 {
			continue
		}
		if lane := r.lane(queue, one.Lane); lane != nil {
			lane.add(now, one.Started)
		}
		if one.User != "" {
			r.meter(RateKey{Tenant: key.Tenant, User: one.User}).started(now, one.Started, one.Waiting)
		}
	}
	queue.all.add(now, n)
	queue.started(now, n, waited)
	queue.backlog = r.backlog(key)
	r.meter(RateKey{Tenant: key.Tenant}).started(now, n, waited)
}

// meter gives a meter; where there is no room for a new one, one that nobody reads.
func (r *Rates) meter(key RateKey) *line {
	one := r.own[key]
	if one == nil {
		one = &line{}
		if len(r.own) < maxMeters/2 || key.User == "" && len(r.own) < maxMeters {
			one.lanes = map[lanes.ID]*decaying{}
			r.own[key] = one
		}
	}
	return one
}

// lane gives the part of a lane in its queue's starts; nil where there is no room for a new one.
func (r *Rates) lane(queue *line, id lanes.ID) *decaying {
	one := queue.lanes[id]
	if one == nil && queue.lanes != nil && r.lanes < maxLanes {
		one = &decaying{}
		queue.lanes[id] = one
		r.lanes++
	}
	return one
}

// paceOf is a lane's part of its queue's pace.
func (l *line) paceOf(lane *decaying, now time.Time) Pace {
	all, which := l.pace(now), l.which()
	if l.all.starts[which] == 0 {
		return Pace{}
	}
	all.PerSecond *= lane.starts[which] * decayed(which, l.all.at.Sub(lane.at)) / l.all.starts[which]
	return all
}

// Line gives how many jobs of some lanes of one queue start in a second while jobs wait in them; 0 where it is not known.
func (r *Rates) Line(now time.Time, key tenant.QueueKey, lanes []lanes.ID) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, others := r.own[RateKey{Tenant: key.Tenant, Queue: key.Name}], r.isHeard(now)
	var all Pace
	for _, id := range lanes {
		if own != nil && own.lanes[id] != nil {
			all = all.with(own.paceOf(own.lanes[id], now))
		}
		if others {
			all = all.with(r.others.lanes[id])
		}
	}
	return all.line()
}

// Queue gives how many jobs of a queue start in a second, and how many do while jobs wait; each 0 where it is not known.
func (r *Rates) Queue(now time.Time, key tenant.QueueKey) (perSecond, line float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all Pace
	if own := r.own[RateKey{Tenant: key.Tenant, Queue: key.Name}]; own != nil {
		all = own.pace(now)
	}
	if r.isHeard(now) {
		all = all.with(r.others.queues[key])
	}
	return all.PerSecond, all.line()
}

// Here gives how many of these jobs start in a second in this core; 0 where it is not known.
func (r *Rates) Here(now time.Time, key RateKey) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if own := r.own[key]; own != nil {
		return own.pace(now).PerSecond
	}
	return 0
}

// isHeard says that the rates of the other cores are not too old. The caller holds the lock.
func (r *Rates) isHeard(now time.Time) bool { return now.Sub(r.heard) <= heardMost }

// Due says that the rates of the other cores are to be read, to one caller in that time.
func (r *Rates) Due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.asked) < heardFor {
		return false
	}
	r.asked = now
	return true
}

// Unheard has the next caller read the rates of the other cores: the one who was to read them has left.
func (r *Rates) Unheard() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = time.Time{}
}

// Report gives the paces of lanes that this core tells the others, and forgets what has no starts.
func (r *Rates) Report(now time.Time) []LaneRate {
	r.mu.Lock()
	defer r.mu.Unlock()
	var made []LaneRate
	for key, own := range r.own {
		if now.Sub(own.last) > forgotten {
			r.lanes -= len(own.lanes)
			delete(r.own, key)
			continue
		}
		before := len(own.lanes)
		maps.DeleteFunc(own.lanes, func(_ lanes.ID, lane *decaying) bool { return now.Sub(lane.at) > forgotten })
		r.lanes -= before - len(own.lanes)
		for id, lane := range own.lanes {
			if pace := own.paceOf(lane, now); pace.PerSecond > 0 {
				made = append(made, LaneRate{Lane: id, Pace: pace})
			}
		}
	}
	slices.SortFunc(made, func(a, b LaneRate) int { return cmp.Compare(b.PerSecond, a.PerSecond) })
	return made[:min(len(made), maxReported)]
}

// Heard takes the rates of the other cores, in the place of those before; find gives a lane by its id, if it is known.
func (r *Rates) Heard(now time.Time, rates []LaneRate, find func(lanes.ID) (lanes.Lane, bool)) {
	byLane, byQueue := map[lanes.ID]Pace{}, map[tenant.QueueKey]Pace{}
	for _, one := range rates {
		byLane[one.Lane] = byLane[one.Lane].with(one.Pace)
		if lane, known := find(one.Lane); known {
			byQueue[lane.InQueue()] = byQueue[lane.InQueue()].with(one.Pace)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.others.lanes, r.others.queues, r.heard = byLane, byQueue, now
}
