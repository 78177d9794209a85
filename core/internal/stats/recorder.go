package stats

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Counts are what jobs did.
type Counts struct {
	// Submitted are jobs that were stored, Started attempts that were claimed.
	Submitted, Started int64
	// Completed, DeadLetter and Cancelled are jobs that ended so.
	Completed, DeadLetter, Cancelled int64
	// FailedAttempts are attempts that failed, or whose lease or time ended.
	FailedAttempts int64
	// Waiting is the time from ready to claimed, of the started attempts. Running is the time from claimed to ended, of
	// the attempts that ended.
	Waiting, Running time.Duration
}

func (c *Counts) add(more *Counts) {
	c.Submitted += more.Submitted
	c.Started += more.Started
	c.Completed += more.Completed
	c.DeadLetter += more.DeadLetter
	c.Cancelled += more.Cancelled
	c.FailedAttempts += more.FailedAttempts
	c.Waiting += more.Waiting
	c.Running += more.Running
}

// events is how many events they are.
func (c *Counts) events() int64 {
	return c.Submitted + c.Started + c.Completed + c.DeadLetter + c.Cancelled + c.FailedAttempts
}

// Event is what happened to one job.
type Event struct {
	tenant.QueueKey
	// At is PostgreSQL's time.
	At time.Time
	Counts
}

// maxKeys bounds the memory of a Recorder, about 200 bytes for each. Above it, queues that are not there yet are
// counted for their tenant only, and above twice as many not at all.
const maxKeys = 20_000

// key is a queue in a minute.
type key struct {
	tenant.QueueKey
	// minute is in Unix time, so that equal ones are equal.
	minute int64
}

// Recorder holds what was not appended yet.
type Recorder struct {
	mu     sync.Mutex
	counts Pending
	// last is the one that was added to last: events come in runs.
	last     key
	lastOnes *Counts
	lost     int64
}

// Record counts events.
func (r *Recorder) Record(events ...Event) {
	if len(events) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range events {
		one := &events[i]
		r.of(key{one.QueueKey, one.At.Unix() / 60}, &one.Counts)
	}
}

func (r *Recorder) of(k key, more *Counts) {
	if r.lastOnes != nil && r.last == k {
		r.lastOnes.add(more)
		return
	}
	ones := r.counts[k]
	if ones == nil {
		if len(r.counts) >= maxKeys && k.Name != "" {
			k.Name = "" // the tenant's alone
			r.of(k, more)
			return
		}
		if len(r.counts) >= 2*maxKeys {
			r.lost += more.events()
			return
		}
		if r.counts == nil {
			r.counts = Pending{}
		}
		ones = &Counts{}
		r.counts[k] = ones
	}
	ones.add(more)
	r.last, r.lastOnes = k, ones
}

// Pending are counts that are not appended yet.
type Pending map[key]*Counts

// Take gives what was recorded, and forgets it. lost is how many events found no place.
func (r *Recorder) Take() (pending Pending, lost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending, lost = r.counts, r.lost
	r.counts, r.lost, r.lastOnes = nil, 0, nil
	return pending, lost
}

// Restore records again what Take gave.
func (r *Recorder) Restore(pending Pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, ones := range pending {
		r.of(k, ones)
	}
}

// Events is how many events they are.
func (p Pending) Events() (n int64) {
	for _, ones := range p {
		n += ones.events()
	}
	return n
}

// row is a queue's counts in a minute, or with an empty Name those of all of a tenant's queues.
type row struct {
	key
	*Counts
}

// rows are the rows to append, with one for each tenant, in one order.
func (p Pending) rows() []row {
	var rows []row
	totals := Pending{}
	for k, ones := range p {
		if api.SystemQueue(k.Name) { // the tenant's are the jobs of its own
			rows = append(rows, row{k, ones})
			continue
		}
		total := key{tenant.QueueKey{Tenant: k.Tenant}, k.minute}
		if totals[total] == nil {
			totals[total] = &Counts{}
		}
		totals[total].add(ones)
		if k.Name != "" {
			rows = append(rows, row{k, ones})
		}
	}
	for k, ones := range totals {
		rows = append(rows, row{k, ones})
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(bytes.Compare(a.Tenant[:], b.Tenant[:]), strings.Compare(a.Name, b.Name), cmp.Compare(a.minute, b.minute))
	})
	return rows
}
