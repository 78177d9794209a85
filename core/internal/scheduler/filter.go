package scheduler

import (
	"maps"
	"slices"
	"strings"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Filter says which lanes a claim may take from.
type Filter struct {
	// Owner is the tenant, or tenant.Platform for every tenant's.
	Owner  tenant.ID
	Queues []string
	// Tags are the worker's; a lane's must all be among them.
	Tags map[string]bool
	// Push takes from all queues in push mode instead, whatever their names and tags.
	Push bool
	// Capacity, where not nil, gives what is taken into account for one look.
	Capacity func() Capacity
}

// Capacity is for how many jobs there is room now, of which queues may share some.
type Capacity interface {
	// Of is how many jobs of a queue can be taken; 0 leaves the queue out.
	Of(tenant.QueueKey) int
	// Take leaves less room for what is asked for next.
	Take(key tenant.QueueKey, n int)
}

// Serves says whether a claim may take from the lane.
func (f *Filter) Serves(lane *directory.Lane) bool {
	return f.Push || lane.ServedBy(f.Tags)
}

// Key is the same for filters that let the same lanes through.
func (f *Filter) Key() string {
	if f.Push {
		return "push"
	}
	queues := slices.Compact(slices.Sorted(slices.Values(f.Queues)))
	tags := slices.Sorted(maps.Keys(f.Tags))
	return f.Owner.String() + "\n" + strings.Join(queues, ",") + "\n" + strings.Join(tags, ",")
}
