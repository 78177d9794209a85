package scheduler

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// shortestRun and longestRun bound what an attempt counts as, in seconds.
	shortestRun, longestRun = 0.001, 60.0
	// unknownRun is what an attempt counts as while none has ended, in seconds.
	unknownRun = 1.0
	// averaged is about how many attempts an average is of.
	averaged = 16
	// maxAverages bounds the lanes and the queues, maxRuns the running attempts that are remembered.
	maxAverages = 100_000
	maxRuns     = 100_000
)

// RunTimes are how long attempts run, by lane and by queue: by them a DRR divides time and not jobs. A job is charged with
// the average when it starts, and while few attempts are known with the difference when its attempt ends in this core: later
// the average is right on average, and single attempts that were slow by chance do not matter. All is memory only. A nil RunTimes
// counts each job as one. It is safe for concurrent use.
type RunTimes struct {
	mu     sync.Mutex
	all    average
	lanes  map[lanes.ID]average
	queues map[tenant.QueueKey]average
	runs   map[uuid.UUID]run
}

// run is what a running attempt was charged with.
type run struct {
	drr    *DRR
	owner  tenant.ID
	weight int
	cost   float64
	// guessed: the average was of too few attempts to be right on average.
	guessed bool
}

// average is a decaying average in seconds.
type average struct {
	mean float64
	n    int
}

func (a average) add(seconds float64) average {
	a.n = min(a.n+1, averaged)
	a.mean += (seconds - a.mean) / float64(a.n)
	return a
}

// NewRunTimes makes an empty one.
func NewRunTimes() *RunTimes {
	return &RunTimes{lanes: map[lanes.ID]average{}, queues: map[tenant.QueueKey]average{}, runs: map[uuid.UUID]run{}}
}

// Start is a job that was leased.
type Start struct {
	Job    uuid.UUID
	Lane   lanes.ID
	Queue  tenant.QueueKey
	Weight int
}

// Ran is an attempt that has ended.
type Ran struct {
	Job   uuid.UUID
	Lane  lanes.ID
	Queue tenant.QueueKey
	For   time.Duration
}

// Costs fills in what a job of each tenant will count as, by its queues.
func (r *RunTimes) Costs(wants []Demand, queuesOf func(tenant.ID) []tenant.QueueKey) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range wants {
		sum, n := 0.0, 0
		for _, key := range queuesOf(wants[i].Tenant) {
			if known, ok := r.queues[key]; ok {
				sum, n = sum+known.mean, n+1
			}
		}
		wants[i].Typical = r.otherwise()
		if wants[i].Cost = wants[i].Typical; n > 0 {
			wants[i].Cost = sum / float64(n)
		}
	}
}

// otherwise is the average of all. The caller holds the lock.
func (r *RunTimes) otherwise() float64 {
	if r.all.n == 0 {
		return unknownRun
	}
	return r.all.mean
}

// Charge charges a DRR with jobs that start, and remembers each until its attempt ends.
func (r *RunTimes) Charge(drr *DRR, starts []Start) {
	if r == nil {
		for _, one := range starts {
			drr.Charge(one.Queue.Tenant, one.Weight, 1)
		}
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs)+len(starts) > maxRuns { // those that have ended in other cores
		clear(r.runs)
	}
	for _, one := range starts {
		cost := r.otherwise()
		known, ok := r.lanes[one.Lane]
		guessed := known.n < averaged
		if ok {
			cost = known.mean
		} else if known, ok := r.queues[one.Queue]; ok {
			cost = known.mean
		}
		drr.Charge(one.Queue.Tenant, one.Weight, cost)
		r.runs[one.Job] = run{drr, one.Queue.Tenant, one.Weight, cost, guessed}
	}
}

// Ended learns from attempts, and corrects what their tenants were charged with.
func (r *RunTimes) Ended(attempts []Ran) {
	if r == nil || len(attempts) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs) == 0 {
		return
	}
	for _, one := range attempts {
		charged, ok := r.runs[one.Job]
		if !ok {
			continue
		}
		delete(r.runs, one.Job)
		seconds := min(max(one.For.Seconds(), shortestRun), longestRun)
		r.all = r.all.add(seconds)
		learn(r.lanes, one.Lane, seconds)
		learn(r.queues, one.Queue, seconds)
		if charged.guessed {
			charged.drr.Correct(charged.owner, charged.weight, seconds-charged.cost)
		}
	}
}

func learn[K comparable](averages map[K]average, key K, seconds float64) {
	if len(averages) >= maxAverages {
		clear(averages)
	}
	averages[key] = averages[key].add(seconds)
}
