package scheduler

import (
	"math"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// pool simulates slots that serve tenants with waiting jobs.
type pool struct {
	drr   DRR
	times *RunTimes
	now   time.Duration
	// slots are the attempts that run.
	slots []attempt
	// used is the time of slots that each tenant has had.
	used map[tenant.ID]time.Duration
	// waited is the longest time between two starts of a tenant that waits.
	waited, last map[tenant.ID]time.Duration
}

type attempt struct {
	Start

	from, until time.Duration
}

// client is a tenant whose jobs take some time, from when on it has jobs.
type client struct {
	Demand

	runs func() time.Duration
	from time.Duration
}

func queueOf(owner tenant.ID) []tenant.QueueKey {
	return []tenant.QueueKey{{Tenant: owner, Name: "q"}}
}

// run lets the slots work until a time.
func (p *pool) run(slots int, until time.Duration, clients ...client) {
	p.used, p.waited, p.last = map[tenant.ID]time.Duration{}, map[tenant.ID]time.Duration{}, map[tenant.ID]time.Duration{}
	for p.now < until {
		for len(p.slots) < slots {
			p.start(clients)
		}
		next := 0
		for i := range p.slots {
			if p.slots[i].until < p.slots[next].until {
				next = i
			}
		}
		ended := p.slots[next]
		p.slots = append(p.slots[:next], p.slots[next+1:]...)
		p.now = ended.until
		p.used[ended.Queue.Tenant] += ended.until - ended.from
		p.times.Ended([]Ran{{ended.Job, ended.Lane, ended.Queue, ended.until - ended.from}})
	}
}

func (p *pool) start(clients []client) {
	var wants []Demand
	for i := range clients {
		if clients[i].from <= p.now {
			wants = append(wants, clients[i].Demand)
		}
	}
	p.times.Costs(wants, queueOf)
	quota := p.drr.Allocate(wants, 1)[0]
	for i := range clients {
		one := &clients[i]
		if one.Tenant != quota.Tenant {
			continue
		}
		start := Start{Job: uuid.New(), Lane: lanes.ID(i + 1), Queue: queueOf(one.Tenant)[0], Weight: one.Weight}
		p.times.Charge(&p.drr, []Start{start})
		p.slots = append(p.slots, attempt{start, p.now, p.now + one.runs()})
		if since, ok := p.last[one.Tenant]; ok || one.from > 0 {
			p.waited[one.Tenant] = max(p.waited[one.Tenant], p.now-max(since, one.from))
		}
		p.last[one.Tenant] = p.now
	}
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// part is a tenant's part of the time of all slots.
func (p *pool) part(owner tenant.ID) float64 {
	var all time.Duration
	for _, used := range p.used {
		all += used
	}
	return float64(p.used[owner]) / float64(all)
}

// Two tenants of equal weight share ten slots; one's jobs take a second, the other's ten.
func TestSharesAreOfTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		weight        int
		first, second func() time.Duration
		want          float64
	}{
		{"1 s and 10 s", 1, always(time.Second), always(10 * time.Second), 0.5},
		{"10 ms and 30 s", 1, always(10 * time.Millisecond), always(30 * time.Second), 0.5},
		{"with three times the weight", 3, always(time.Second), always(10 * time.Second), 0.75},
		{"now short, now long", 1, always(time.Second), alternating(100*time.Millisecond, 20*time.Second), 0.5},
	} {
		p := &pool{times: NewRunTimes()}
		p.run(10, 2*time.Minute, client{Demand: Demand{Tenant: nth(1), Weight: c.weight}, runs: c.first}, client{Demand: Demand{Tenant: nth(2), Weight: 1}, runs: c.second})
		before := p.part(nth(1))
		p.run(10, 6*time.Minute, client{Demand: Demand{Tenant: nth(1), Weight: c.weight}, runs: c.first}, client{Demand: Demand{Tenant: nth(2), Weight: 1}, runs: c.second})
		if got := p.part(nth(1)); math.Abs(got-c.want) > 0.05 {
			t.Errorf("%s: after two minutes the first has %.2f of the time, want %.2f", c.name, got, c.want)
		}
		t.Logf("%s: %.2f in the first two minutes, %.2f after", c.name, before, p.part(nth(1)))
	}
}

func alternating(some ...time.Duration) func() time.Duration {
	n := 0
	return func() time.Duration { n++; return some[n%len(some)] }
}

// Without run times shares are of jobs: the one with long jobs has nearly all of the time.
func TestSharesOfJobs(t *testing.T) {
	t.Parallel()
	p := &pool{}
	p.run(10, 5*time.Minute, client{Demand: Demand{Tenant: nth(1), Weight: 1}, runs: always(time.Second)}, client{Demand: Demand{Tenant: nth(2), Weight: 1}, runs: always(10 * time.Second)})
	if got := p.part(nth(1)); got > 0.12 {
		t.Errorf("the one with short jobs has %.2f of the time, want about 0.09", got)
	}
}

// A tenant with short jobs that comes after a while starts with the next free slot, and what a tenant has used alone does
// not count against it for longer than maxAhead.
func TestAQuietTenantsWaitIsBounded(t *testing.T) {
	t.Parallel()
	p := &pool{times: NewRunTimes()}
	loud := client{Demand: Demand{Tenant: nth(1), Weight: 1}, runs: always(10 * time.Second)}
	p.run(10, 10*time.Minute, loud, client{Demand: Demand{Tenant: nth(2), Weight: 1}, runs: always(100 * time.Millisecond), from: 5 * time.Minute})
	if got := p.waited[nth(2)]; got > 10*time.Second {
		t.Errorf("the quiet one has waited for %v, which is longer than a job of the other", got)
	}
	// ten hours of slots' time by jobs that seemed to be short
	p = &pool{times: NewRunTimes()}
	p.times.Charge(&p.drr, nil)
	p.run(600, time.Minute, client{Demand: Demand{Tenant: nth(1), Weight: 1}, runs: always(time.Minute)})
	p.slots = nil
	p.run(1, p.now+30*time.Minute, client{Demand: Demand{Tenant: nth(1), Weight: 1}, runs: always(time.Minute)}, client{Demand: Demand{Tenant: nth(2), Weight: 1}, runs: always(time.Second)})
	if got := p.waited[nth(1)]; got > 12*time.Minute {
		t.Errorf("the loud one has waited for %v", got)
	}
}

// A tenant whose jobs were slow once, because its workers stood still, is served again soon.
func TestSlowByChance(t *testing.T) {
	t.Parallel()
	p := &pool{times: NewRunTimes()}
	n := 0
	once := func() time.Duration {
		if n++; n > 3000 && n <= 3076 {
			return 5 * time.Second
		}
		return 5 * time.Millisecond
	}
	quick, unlucky := Demand{Tenant: nth(1), Weight: 1}, Demand{Tenant: nth(2), Weight: 1}
	p.run(76, 20*time.Second, client{Demand: quick, runs: always(5 * time.Millisecond)}, client{Demand: unlucky, runs: once})
	if n < 4000 {
		t.Fatalf("only %d attempts", n)
	}
	if got := p.waited[nth(2)]; got > 8*time.Second { // 5 s of them with all slots taken
		t.Errorf("it was not served for %v", got)
	}
	t.Logf("not served for %v, %d attempts", p.waited[nth(2)], n)
}

// Attempts that end in other cores are forgotten, and no map grows without bound.
func TestRunTimesAreBounded(t *testing.T) {
	t.Parallel()
	r, drr := NewRunTimes(), &DRR{}
	for i := range 3 * maxRuns / 1000 {
		starts := make([]Start, 1000)
		for j := range starts {
			starts[j] = Start{Job: uuid.New(), Lane: lanes.ID(i*1000 + j), Queue: tenant.QueueKey{Tenant: nth(i*1000 + j), Name: "q"}, Weight: 1}
		}
		r.Charge(drr, starts)
		for j := range starts[:500] {
			r.Ended([]Ran{{starts[j].Job, starts[j].Lane, starts[j].Queue, time.Second}})
		}
	}
	if len(r.runs) > maxRuns || len(r.lanes) > maxAverages || len(r.queues) > maxAverages {
		t.Errorf("%d runs, %d lanes, %d queues", len(r.runs), len(r.lanes), len(r.queues))
	}
}
