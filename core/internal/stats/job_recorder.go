package stats

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
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
	// Lane is where a started attempt was claimed from. User is set where the starts of the job's user are counted.
	Lane lanes.ID
	User string
}

// maxKeys bounds the memory of a JobRecorder, about 200 bytes for each. Above it, queues that are not there yet are
// counted for their tenant only, and above twice as many not at all.
const maxKeys = 20_000

// key is a queue in a minute.
type key struct {
	tenant.QueueKey
	// minute is in Unix time, so that equal ones are equal.
	minute int64
}

// JobRecorder counts what jobs do, until it is appended to job_stats, and knows how fast they start now.
type JobRecorder struct {
	recorder[key, Counts]

	Rates *Rates
}

// Pending are counts that are not appended yet.
type Pending = map[key]*Counts

// NewJobRecorder makes one, without any counts. backlog says whether more jobs of a queue wait.
func NewJobRecorder(backlog func(tenant.QueueKey) bool) *JobRecorder {
	return &JobRecorder{Rates: newRates(backlog), recorder: recorder[key, Counts]{
		add:    func(_ key, to, more *Counts) { to.add(more) },
		events: (*Counts).events,
		room: func(held Pending, k key) (key, bool) {
			if len(held) >= maxKeys {
				k.Name = "" // the tenant's alone
			}
			return k, len(held) < 2*maxKeys || held[k] != nil
		},
	}}
}

// Record counts events.
func (r *JobRecorder) Record(events ...Event) {
	r.Rates.started(time.Now(), events)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range events {
		one := &events[i]
		r.record(key{one.QueueKey, one.At.Unix() / 60}, &one.Counts)
	}
}

// row is a queue's counts in a minute, or with an empty Name those of all of a tenant's queues.
type row struct {
	key
	*Counts
}

// rowsOf are the rows to append, with one for each tenant, in one order.
func rowsOf(pending Pending) []row {
	var rows []row
	totals := Pending{}
	for k, ones := range pending {
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
