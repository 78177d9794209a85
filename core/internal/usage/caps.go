package usage

import (
	"cmp"
	"slices"
	"strings"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Counter says what is counted of a tenant's jobs. Counters are the bits of
// jobs.counted: a job is in the counts whose bits it has.
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
)

// The counters of each kind.
const (
	ActiveCounters  = ActiveTenant | ActiveUser | ActiveQueue
	RunningCounters = RunningTenant | RunningUser | RunningQueue | RunningAll
)

// String is the counter's name in refusals, as in "tenant-active".
func (c Counter) String() string {
	names := map[Counter]string{
		ActiveTenant: "tenant-active", ActiveUser: "user-active", ActiveQueue: "queue-active",
		RunningTenant: "tenant-running", RunningUser: "user-running", RunningQueue: "queue-running",
		RunningAll: "installation-running",
	}
	return names[c]
}

// Bits lists the counters of which c is made.
func (c Counter) Bits() []int16 {
	var bits []int16
	for bit := ActiveTenant; bit <= RunningAll; bit <<= 1 {
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
	// Name is the user or the queue; empty where the counter is the tenant's.
	Name string
}

func (k CountKey) compare(other CountKey) int {
	return cmp.Or(strings.Compare(string(k.Tenant[:]), string(other.Tenant[:])),
		cmp.Compare(k.Counter, other.Counter), strings.Compare(k.Name, other.Name))
}

// lock is the class of the lock under which a count grows.
func (k CountKey) lock() store.LockClass {
	if k.Counter&RunningCounters != 0 {
		return store.LockClaim
	}
	return store.LockSubmit
}

// Cap is the most that a count may reach.
type Cap struct {
	CountKey
	Limit int64
}

// FullCap is a cap that left no room, with what was used of it.
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

// KeysOf lists the counts of all caps, each once, in one order for everybody.
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

// Tally decides who is admitted: counts as they were read under their lock, and
// what was taken since. It is memory only; nothing holds until it is appended.
type Tally struct {
	Counts map[CountKey]*count
	// jobsSize is how many bytes the table of jobs had, where a count is not settled.
	jobsSize int64
}

// count is one count in a tally.
type count struct {
	// seq is that of the newest row in the log, 0 for none.
	seq int64
	// Used is the true count at the reading: what decides.
	used int64
	// next is the log's next row, without what is taken.
	next logRow
	// crowded says that many credits wait for a row that folds them or sums them up.
	crowded bool
	// kept says that the count is kept already, settled that the books know of all.
	kept, settled bool
	// taken is what was admitted since the reading.
	taken int64
}

// Full gives those of the caps that have no room for one job more.
func (t *Tally) Full(caps []Cap) []FullCap {
	var full []FullCap
	for _, c := range caps {
		if used := t.Used(c.CountKey); used >= c.Limit {
			full = append(full, FullCap{c, used})
		}
	}
	return full
}

// Capacity is how many jobs more fit under all of the caps; -1 for any number.
func (t *Tally) Capacity(caps []Cap) int64 {
	room := int64(-1)
	for _, c := range caps {
		left := max(c.Limit-t.Used(c.CountKey), 0)
		if room < 0 || left < room {
			room = left
		}
	}
	return room
}

// Used is what is in a count, with what was taken.
func (t *Tally) Used(key CountKey) int64 {
	counted, ok := t.Counts[key]
	if !ok {
		return 0
	}
	return counted.used + counted.taken
}

// Take puts n jobs into the counts of the caps; n below 0 takes them out again.
func (t *Tally) Take(caps []Cap, n int64) {
	for _, c := range caps {
		if counted, ok := t.Counts[c.CountKey]; ok {
			counted.taken += n
		}
	}
}
