package stats

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// LimitUse is what was used of a limit at a moment, or since the last time.
type LimitUse struct {
	Tenant tenant.ID
	// Limit is the limit's name in refusals, as in "tenant-active" for a cap and "tenant-requests" for a rate.
	Limit string
	// Name is the queue, or the user or key that was refused; empty for the tenant, and for all of its users or keys.
	Name string
	// At is PostgreSQL's time; the zero time is when it is appended.
	At time.Time
	LimitCounts
}

// LimitCounts are the largest use, the largest limit, and how much was refused; of a rate, Used is how much was admitted,
// and Allowed how much is in a minute.
type LimitCounts struct{ Used, Allowed, Refused int64 }

// isRate says whether a limit is a rate, whose use is a sum; capEndings are what the names of caps end in.
func isRate(limit string) bool {
	return !slices.ContainsFunc(capEndings(), func(end string) bool { return strings.HasSuffix(limit, end) })
}

func capEndings() []string { return []string{"-active", "-running"} }

func (c *LimitCounts) add(more *LimitCounts, rate bool) {
	if rate {
		c.Used += more.Used
	} else {
		c.Used = max(c.Used, more.Used)
	}
	c.Allowed = max(c.Allowed, more.Allowed)
	c.Refused += more.Refused
}

// limitKey is a limit in a minute; 0 is the one in which it is appended.
type limitKey struct {
	tenant.QueueKey
	limit  string
	minute int64
}

// PendingLimits are uses that are not appended yet.
type PendingLimits map[limitKey]*LimitCounts

// maxNames bounds the rows of one tenant's users, keys and queues in what is pending: it draws their names.
const maxNames = 1_000

// LimitRecorder holds what was not appended yet, within the same bound as a Recorder, and each tenant within maxNames:
// above them, limits that are not there yet are not recorded.
type LimitRecorder struct {
	mu     sync.Mutex
	counts PendingLimits
	// named counts those with a name, by tenant.
	named map[tenant.ID]int
	lost  int64
}

// Record notes uses.
func (r *LimitRecorder) Record(uses ...LimitUse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range uses {
		one := &uses[i]
		minute := int64(0)
		if !one.At.IsZero() {
			minute = one.At.Unix() / 60
		}
		r.of(limitKey{tenant.QueueKey{Tenant: one.Tenant, Name: one.Name}, one.Limit, minute}, &one.LimitCounts)
	}
}

func (r *LimitRecorder) of(k limitKey, more *LimitCounts) {
	ones := r.counts[k]
	if ones == nil {
		if len(r.counts) >= maxKeys || (k.Name != "" && r.named[k.Tenant] >= maxNames) {
			r.lost++
			return
		}
		if r.counts == nil {
			r.counts, r.named = PendingLimits{}, map[tenant.ID]int{}
		}
		if k.Name != "" {
			r.named[k.Tenant]++
		}
		ones = &LimitCounts{}
		r.counts[k] = ones
	}
	ones.add(more, isRate(k.limit))
}

// Take gives what was recorded, and forgets it. lost is how many uses found no place.
func (r *LimitRecorder) Take() (pending PendingLimits, lost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending, lost = r.counts, r.lost
	r.counts, r.named, r.lost = nil, nil, 0
	return pending, lost
}

// Restore records again what Take gave.
func (r *LimitRecorder) Restore(pending PendingLimits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k, ones := range pending {
		r.of(k, ones)
	}
}

// keys are those of the rows to append, in one order.
func (p PendingLimits) keys() []limitKey {
	keys := make([]limitKey, 0, len(p))
	for k := range p {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b limitKey) int {
		return cmp.Or(bytes.Compare(a.Tenant[:], b.Tenant[:]), strings.Compare(a.limit, b.limit), strings.Compare(a.Name, b.Name), cmp.Compare(a.minute, b.minute))
	})
	return keys
}
