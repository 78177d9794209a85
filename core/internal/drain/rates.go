package drain

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
	// maxMeters bounds the queues, and the users, whose starts are counted in memory, maxLanes the lanes of them.
	maxMeters = 20_000
	maxLanes  = 100_000
	// maxReported bounds a report: the lanes with the lowest rates are left out.
	maxReported = 2000
	// forgotten is when a queue without starts is forgotten.
	forgotten = 15 * time.Minute
)

// Start is a job that a claim of this core has leased.
type Start struct {
	Lane  lanes.ID
	Queue tenant.QueueKey
	// User is set where the user's starts are counted.
	User   string
	Waited time.Duration
}

// UserKey names a user of a tenant.
type UserKey struct {
	Tenant tenant.ID
	User   string
}

// Rates are how many jobs start in a second, here and in the other cores.
type Rates struct {
	mu     sync.Mutex
	queues map[tenant.QueueKey]*line
	// tenants are the same by tenant; users are those whose starts are counted.
	tenants map[tenant.ID]*meter
	users   map[UserKey]*meter
	lanes   int
	others  reported
	// heard is when the reports of the others were read, asked when a caller was to read them.
	heard, asked time.Time
}

// line is a queue's meter, with the part of each lane in its starts.
type line struct {
	meter
	lanes map[lanes.ID]*part
	// touched are those with starts in the open interval.
	touched []*part
}

// part is how many of a line's starts are a lane's; they decay with the line's.
type part struct {
	starts [2]float64
	open   float64
	at     time.Time
}

func (p *part) decay(to time.Time) {
	for i := range p.starts {
		p.starts[i] *= decayed(i, to.Sub(p.at))
	}
	p.at = to
}

// reported is what other cores have told, by lane, by queue, by tenant and by user.
type reported struct {
	cores   int
	lanes   map[lanes.ID]pace
	queues  map[tenant.QueueKey]pace
	tenants map[tenant.ID]float64
	users   map[UserKey]float64
}

// NewRates makes them, without any starts.
func NewRates() *Rates {
	return &Rates{queues: map[tenant.QueueKey]*line{}, tenants: map[tenant.ID]*meter{}, users: map[UserKey]*meter{}}
}

// Started counts jobs that one claim has leased. left says whether more of a queue's jobs wait.
func (r *Rates) Started(now time.Time, starts []Start, left func(tenant.QueueKey) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i < len(starts); {
		// those of a queue mostly come together
		end := i + 1
		for end < len(starts) && starts[end].Queue == starts[i].Queue {
			end++
		}
		r.ofQueue(now, starts[i:end], left)
		if m := meterOf(r.tenants, starts[i].Queue.Tenant); m != nil {
			m.started(now, end-i, starts[i].Waited)
		}
		i = end
	}
	for i := range starts {
		if starts[i].User != "" {
			if m := meterOf(r.users, UserKey{starts[i].Queue.Tenant, starts[i].User}); m != nil {
				m.started(now, 1, starts[i].Waited)
			}
		}
	}
}

// ofQueue counts starts of one queue. The caller holds the lock.
func (r *Rates) ofQueue(now time.Time, starts []Start, left func(tenant.QueueKey) bool) {
	one := r.queues[starts[0].Queue]
	if one == nil {
		if len(r.queues) >= maxMeters {
			return
		}
		one = &line{lanes: map[lanes.ID]*part{}}
		r.queues[starts[0].Queue] = one
	}
	waited := starts[0].Waited
	for i := range starts {
		waited = max(waited, starts[i].Waited)
		lane := one.lanes[starts[i].Lane]
		if lane == nil {
			if r.lanes >= maxLanes {
				continue
			}
			r.lanes++
			lane = &part{at: now}
			one.lanes[starts[i].Lane] = lane
		}
		if lane.open == 0 {
			one.touched = append(one.touched, lane)
		}
		lane.open++
	}
	if closed := one.started(now, len(starts), waited); closed {
		for _, lane := range one.touched {
			lane.decay(now)
			for span := range lane.starts {
				lane.starts[span] += lane.open
			}
			lane.open = 0
		}
		one.touched = one.touched[:0]
	}
	one.backlog = left(starts[0].Queue)
}

// meterOf gives a meter, and makes it if there is room for it.
func meterOf[K comparable](meters map[K]*meter, key K) *meter {
	m := meters[key]
	if m == nil && len(meters) < maxMeters {
		m = &meter{}
		meters[key] = m
	}
	return m
}

// paceOf is a lane's part of its queue's pace.
func (l *line) paceOf(lane *part, now time.Time) (pace, bool) {
	all, known := l.pace(now)
	span := l.span()
	if !known || l.spans[span].starts == 0 {
		return pace{}, false
	}
	all.perSecond *= min(lane.starts[span]*decayed(span, l.closed.Sub(lane.at))/l.spans[span].starts, 1)
	return all, all.perSecond > 0
}

// Line gives how fast some lanes of one queue move together while jobs wait in them; false where it is not known.
func (r *Rates) Line(now time.Time, key tenant.QueueKey, lanes []lanes.ID) (perSecond float64, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all total
	own, others := r.queues[key], r.elsewhere(now)
	for _, id := range lanes {
		if own != nil && own.lanes[id] != nil {
			if one, known := own.paceOf(own.lanes[id], now); known {
				all.add(one)
			}
		}
		all.add(others.lanes[id])
	}
	return all.line()
}

// Queue gives how many jobs of a queue start in a second, all time counted, and while jobs wait; each false where it is
// not known.
func (r *Rates) Queue(now time.Time, key tenant.QueueKey) (perSecond float64, known bool, line float64, lineKnown bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.queue(now, key)
	line, lineKnown = all.line()
	return all.perSecond, all.perSecond > 0, line, lineKnown
}

func (r *Rates) queue(now time.Time, key tenant.QueueKey) (all total) {
	if own := r.queues[key]; own != nil {
		if one, known := own.pace(now); known {
			all.add(one)
		}
	}
	all.add(r.elsewhere(now).queues[key])
	return all
}

// OfQueue gives how many jobs of a queue start in a second, all time counted; 0 where it is not known.
func (r *Rates) OfQueue(now time.Time, key tenant.QueueKey) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue(now, key).perSecond
}

// OfTenant is OfQueue for all queues of a tenant.
func (r *Rates) OfTenant(now time.Time, owner tenant.ID) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.elsewhere(now).tenants[owner] + r.tenants[owner].perSecond(now)
}

// OfUser is OfQueue for a user whose starts are counted.
func (r *Rates) OfUser(now time.Time, key UserKey) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.elsewhere(now).users[key] + r.users[key].perSecond(now)
}

// Empty says that there is nothing to report.
func (r *Report) Empty() bool { return len(r.Lanes) == 0 && len(r.Users) == 0 }

// Cores is how many cores start jobs, this one included.
func (r *Rates) Cores(now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.elsewhere(now).cores + 1
}

// total adds paces of several lanes or cores: their rates, and the mean of their busy parts by rate.
type total struct {
	perSecond, busy float64
	busyKnown       bool
}

func (t *total) add(p pace) {
	t.perSecond += p.perSecond
	t.busy += p.busy * p.perSecond
	t.busyKnown = t.busyKnown || p.busyKnown && p.perSecond > 0
}

// line is the rate while jobs wait.
func (t *total) line() (perSecond float64, known bool) {
	if !t.busyKnown || t.perSecond == 0 || t.busy == 0 {
		return 0, false
	}
	return t.perSecond * t.perSecond / t.busy, true
}

// Report gives what this core tells the others, and forgets queues and users without starts.
func (r *Rates) Report(now time.Time) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var made Report
	for key, own := range r.queues {
		if now.Sub(own.last) > forgotten {
			r.lanes -= len(own.lanes)
			delete(r.queues, key)
			continue
		}
		for id, lane := range own.lanes {
			if lane.open == 0 && now.Sub(lane.at) > forgotten {
				delete(own.lanes, id)
				r.lanes--
				continue
			}
			if one, known := own.paceOf(lane, now); known {
				made.Lanes = append(made.Lanes, LaneRate{Lane: id, PerSecond: one.perSecond, Busy: one.busy, BusyKnown: one.busyKnown})
			}
		}
	}
	idle := func(m *meter) bool { return now.Sub(m.last) > forgotten }
	maps.DeleteFunc(r.tenants, func(_ tenant.ID, m *meter) bool { return idle(m) })
	maps.DeleteFunc(r.users, func(_ UserKey, m *meter) bool { return idle(m) })
	for key, own := range r.users {
		if rate := own.perSecond(now); rate > 0 {
			made.Users = append(made.Users, UserRate{UserKey: key, PerSecond: rate})
		}
	}
	slices.SortFunc(made.Lanes, func(a, b LaneRate) int { return cmp.Compare(b.PerSecond, a.PerSecond) })
	slices.SortFunc(made.Users, func(a, b UserRate) int { return cmp.Compare(b.PerSecond, a.PerSecond) })
	made.Lanes, made.Users = made.Lanes[:min(len(made.Lanes), maxReported)], made.Users[:min(len(made.Users), maxReported)]
	return made
}

// Heard takes the reports of the other cores, in the place of those before; find gives a lane by its id, if it is known.
func (r *Rates) Heard(now time.Time, reports []Report, find func(lanes.ID) (lanes.Lane, bool)) {
	made := reported{
		cores: len(reports), lanes: map[lanes.ID]pace{}, queues: map[tenant.QueueKey]pace{},
		tenants: map[tenant.ID]float64{}, users: map[UserKey]float64{},
	}
	for _, report := range reports {
		for _, one := range report.Lanes {
			told := pace{perSecond: one.PerSecond, busy: one.Busy, busyKnown: one.BusyKnown}
			made.lanes[one.Lane] = made.lanes[one.Lane].with(told)
			if lane, known := find(one.Lane); known {
				made.queues[lane.InQueue()] = made.queues[lane.InQueue()].with(told)
				made.tenants[lane.Tenant] += one.PerSecond
			}
		}
		for _, one := range report.Users {
			made.users[one.UserKey] += one.PerSecond
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.others, r.heard, r.asked = made, now, now
}

// with is two paces together.
func (p pace) with(other pace) pace {
	var all total
	all.add(p)
	all.add(other)
	if all.perSecond == 0 {
		return pace{}
	}
	return pace{perSecond: all.perSecond, busy: all.busy / all.perSecond, busyKnown: all.busyKnown}
}

const (
	// heardFor is when the reports of the others are to be read again, heardMost when they are no longer used.
	heardFor  = 5 * time.Second
	heardMost = 15 * time.Second
)

// elsewhere is what other cores have told. The caller holds the lock.
func (r *Rates) elsewhere(now time.Time) *reported {
	if now.Sub(r.heard) > heardMost {
		return &reported{}
	}
	return &r.others
}

// Due says that the reports of the others are too old, to one caller in that time.
func (r *Rates) Due(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.asked) < heardFor {
		return false
	}
	r.asked = now
	return true
}
