package caps

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Counter is a kind of count of a tenant's jobs. Counters are the bits of jobs.counted: a job is in
// the counts whose bits it has.
type Counter int16

// Active counts jobs that have not ended, running counts leases.
const (
	ActiveTenant Counter = 1 << iota
	ActiveUser
	ActiveQueue
	RunningTenant
	RunningUser
	RunningQueue
	// RunningAll counts the leases of all tenants: the installation's own cap.
	RunningAll
	// RunningType counts the leases of one type of jobs in a queue.
	RunningType

	lastCounter = RunningType
)

// The counters of each kind.
const (
	ActiveCounters  = ActiveTenant | ActiveUser | ActiveQueue
	RunningCounters = RunningTenant | RunningUser | RunningQueue | RunningAll | RunningType
)

// The same in SQL, where they are smallint: a constant, so that statements stay constants.
const (
	ActiveCountersSQL  = `7`
	runningCountersSQL = `248`
	// RunningAllSQL is RunningAll.
	RunningAllSQL = `64`
)

// countersSQL are the counts that a job may be in, in a LATERAL join of jobs.
const countersSQL = `(
  VALUES (tenant_id, 1, ''), (tenant_id, 2, user_id), (tenant_id, 4, queue),
         (tenant_id, 8, ''), (tenant_id, 16, user_id), (tenant_id, 32, queue), (tenant_id, 128, queue || '/' || type),
         ('00000000-0000-0000-0000-000000000000'::uuid, ` + RunningAllSQL + `, '')
) AS c(owner, counter, name)`

// String is the counter's name in refusals, as in "tenant-active".
func (c Counter) String() string {
	names := map[Counter]string{
		ActiveTenant: "tenant-active", ActiveUser: "user-active", ActiveQueue: "queue-active",
		RunningTenant: "tenant-running", RunningUser: "user-running", RunningQueue: "queue-running",
		RunningAll: "installation-running", RunningType: "type-running",
	}
	return names[c]
}

// bits lists the single counters in c.
func (c Counter) bits() []int16 {
	var bits []int16
	for bit := ActiveTenant; bit <= lastCounter; bit <<= 1 {
		if c&bit != 0 {
			bits = append(bits, int16(bit))
		}
	}
	return bits
}

// CountKey names one count.
type CountKey struct {
	// Tenant is the nil uuid for RunningAll.
	Tenant  tenant.ID
	Counter Counter
	// Name is the user, the queue, or a type of a queue, as TypeName gives it; empty for a counter of
	// the tenant.
	Name string
}

// TypeName names a type of a queue's jobs. Neither name has a slash.
func TypeName(queue, jobType string) string { return queue + "/" + jobType }

func (k CountKey) compare(other CountKey) int {
	return cmp.Or(strings.Compare(string(k.Tenant[:]), string(other.Tenant[:])),
		cmp.Compare(k.Counter, other.Counter), strings.Compare(k.Name, other.Name))
}

// lock is the class of the lock under which a count is increased.
func (k CountKey) lock() store.LockClass {
	if k.Counter&RunningCounters != 0 {
		return store.LockClaim
	}
	return store.LockSubmit
}

// Cap is the upper limit of a count.
type Cap struct {
	CountKey
	Limit int64
}

// FullCap is a cap without capacity left, and its use.
type FullCap struct {
	Cap
	Used int64
}

// BitsOf are the counts that a job under these caps is in.
func BitsOf(caps []Cap) Counter {
	var bits Counter
	for _, c := range caps {
		bits |= c.Counter
	}
	return bits
}

// KeysOf lists the counts of all caps, each once, in one order for all callers.
func KeysOf(caps ...[]Cap) []CountKey {
	var keys []CountKey
	for _, some := range caps {
		for _, c := range some {
			keys = append(keys, c.CountKey)
		}
	}
	slices.SortFunc(keys, CountKey.compare)
	return slices.Compact(keys)
}

// Tally decides which jobs are admitted: counts as read under their lock, and the jobs taken since.
// It is memory only; nothing is stored before Append.
type Tally struct {
	Counts map[CountKey]*count
	// jobsSize is the size of the jobs table in bytes, set if a count is not settled.
	jobsSize int64
	// at is when they were read.
	at time.Time
}

// count is one count in a tally.
type count struct {
	// seq is the sequence number of the newest row in the log, 0 for none.
	seq int64
	// used is the true count when it was read: it decides.
	used int64
	// next is the log's next row, without what is taken.
	next logRow
	// crowded says that many credits wait for a row that folds them or sums them up.
	crowded bool
	// deletes says that such a row deletes them: Citus distributes the schema.
	deletes bool
	// stored says that the count has a row, settled that all jobs are in it.
	stored, settled bool
	// taken is the number of jobs admitted since the read, refused of those that found no room.
	taken, refused int64
	// limit is that of the cap that the count was last compared with; nil for none.
	limit *int64
}

// Use is what was used of a cap when something was admitted, or was not.
type Use struct {
	Cap
	// At is PostgreSQL's time of the read.
	At time.Time
	// Used has the jobs taken; Refused are jobs that found no room.
	Used, Refused int64
}

// Uses gives the use of every cap that was asked for room.
func (t *Tally) Uses() []Use {
	uses := make([]Use, 0, len(t.Counts))
	for key, counted := range t.Counts {
		if counted.limit != nil {
			uses = append(uses, Use{Cap{key, *counted.limit}, t.at, counted.used + counted.taken, counted.refused})
		}
	}
	return uses
}

// Refuse counts a job that the cap of a name, as Counter.String gives it, had no room for.
func (t *Tally) Refuse(caps []Cap, name string) {
	for _, c := range caps {
		if counted, ok := t.Counts[c.CountKey]; ok && c.Counter.String() == name {
			counted.refused++
		}
	}
}

// asked is the use of a cap that a job needs room under.
func (t *Tally) asked(c *Cap) int64 {
	counted, ok := t.Counts[c.CountKey]
	if !ok {
		return 0
	}
	counted.limit = &c.Limit
	return counted.used + counted.taken
}

// Full gives those of the caps that have no capacity for one more job.
func (t *Tally) Full(caps []Cap) []FullCap {
	var full []FullCap
	for i := range caps {
		if used := t.asked(&caps[i]); used >= caps[i].Limit {
			full = append(full, FullCap{caps[i], used})
		}
	}
	return full
}

// Capacity is how many more jobs fit under all of the caps; -1 for any number.
func (t *Tally) Capacity(caps []Cap) int64 {
	capacity := int64(-1)
	for i := range caps {
		left := max(caps[i].Limit-t.asked(&caps[i]), 0)
		if capacity < 0 || left < capacity {
			capacity = left
		}
	}
	return capacity
}

// Used is the value of a count, with the jobs taken.
func (t *Tally) Used(key CountKey) int64 {
	counted, ok := t.Counts[key]
	if !ok {
		return 0
	}
	return counted.used + counted.taken
}

// Take adds n jobs to the counts of the caps; n below 0 subtracts them.
func (t *Tally) Take(caps []Cap, n int64) {
	for _, c := range caps {
		if counted, ok := t.Counts[c.CountKey]; ok {
			counted.taken += n
		}
	}
}
