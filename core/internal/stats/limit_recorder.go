package stats

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
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
type PendingLimits = map[limitKey]*LimitCounts

// maxNames bounds the rows of one tenant's users, keys and queues in what is pending: it draws their names.
const maxNames = 1_000

// LimitRecorder counts the use of limits, until it is appended to limit_stats. It holds as many keys as a JobRecorder, and
// of each tenant maxNames with a name: above them, limits that are not there yet are not recorded.
type LimitRecorder struct {
	recorder[limitKey, LimitCounts]
}

// NewLimitRecorder makes one, without any uses.
func NewLimitRecorder() *LimitRecorder {
	named := map[tenant.ID]int{}
	return &LimitRecorder{recorder[limitKey, LimitCounts]{
		add:    func(k limitKey, to, more *LimitCounts) { to.add(more, isRate(k.limit)) },
		events: func(*LimitCounts) int64 { return 1 },
		room: func(held PendingLimits, k limitKey) (limitKey, bool) {
			if len(held) == 0 {
				clear(named)
			}
			if len(held) >= maxKeys || k.Name != "" && named[k.Tenant] >= maxNames {
				return k, false
			}
			if k.Name != "" {
				named[k.Tenant]++
			}
			return k, true
		},
	}}
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
		r.record(limitKey{tenant.QueueKey{Tenant: one.Tenant, Name: one.Name}, one.Limit, minute}, &one.LimitCounts)
	}
}

// keysOf are the keys of the rows to append, in one order.
func keysOf(pending PendingLimits) []limitKey {
	keys := make([]limitKey, 0, len(pending))
	for k := range pending {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b limitKey) int {
		return cmp.Or(bytes.Compare(a.Tenant[:], b.Tenant[:]), strings.Compare(a.limit, b.limit), strings.Compare(a.Name, b.Name), cmp.Compare(a.minute, b.minute))
	})
	return keys
}
