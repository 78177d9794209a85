package scheduler

import (
	"maps"
	"slices"
	"strings"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Filter says which lanes a claim may take from.
type Filter struct {
	// Owner is the tenant, or tenant.Platform for every tenant's.
	Owner  tenant.ID
	Queues []string
	// Types are those of the jobs that it takes; nil for all types.
	Types map[string]bool
	// Tags are the worker's; a lane's must all be among them.
	Tags map[string]bool
	// Push takes from all queues in push mode instead, whatever their names and tags.
	Push bool
	// Capacity, where not nil, gives the free capacity at the start of a scan.
	Capacity func() Capacity
}

// Capacity is the number of jobs that can be taken now; queues may share some of it.
type Capacity interface {
	// Of is how many jobs of a queue can be taken; 0 leaves the queue out.
	Of(tenant.QueueKey) int
	// Take reduces what is left for later calls.
	Take(key tenant.QueueKey, n int)
}

// Serves says whether a claim may take from the lane.
func (f *Filter) Serves(lane *lanes.Lane) bool {
	return f.Push || (f.Types == nil || f.Types[lane.Type]) && lane.ServedBy(f.Tags)
}

// Key is equal for filters that match the same lanes.
func (f *Filter) Key() string {
	if f.Push {
		return "push"
	}
	queues := slices.Compact(slices.Sorted(slices.Values(f.Queues)))
	tags := slices.Sorted(maps.Keys(f.Tags))
	types := slices.Sorted(maps.Keys(f.Types))
	return f.Owner.String() + "\n" + strings.Join(queues, ",") + "\n" + strings.Join(tags, ",") + "\n" + strings.Join(types, ",")
}

// Set is the set of names; nil for none.
func Set(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}
