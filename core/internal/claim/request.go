package claim

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Request asks for jobs of some lanes.
type Request struct {
	// Lanes are those of the claim, each once.
	Lanes []Lane
	// Shares are served in this order. None: one share of all lanes from their heads, of as many
	// jobs as the workers take.
	Shares []Share
	// Workers take the jobs in this order, each as many as it asks for.
	Workers []Worker
	// Owner is the workers' tenant, or tenant.Platform.
	Owner tenant.ID
	// Without are users whose jobs are skipped in lanes under a cap: misrouted jobs that have no
	// lane yet.
	Without []string
	// LeaseID is drawn for this claim: 128 random bits.
	LeaseID uuid.UUID
	// Bytes bounds the total size of the jobs, except for the first one, which is always taken; 0
	// is api.MaxClaimBytes.
	Bytes int
}

// Worker takes at most Max jobs of a claim.
type Worker struct {
	ID  string
	Max int
}

// Lane is a lane with the visibility timeout of its leases, and the limits on its running jobs.
type Lane struct {
	ID                lanes.ID
	Tenant            tenant.ID
	VisibilityTimeout time.Duration
	// Caps are the running caps on its jobs.
	Caps []caps.Cap
	// Rates are how many of its queue's jobs, and of those of its type, may start in a second.
	Rates []caps.Rate
	// IsMisrouted, where not nil, says whether a user has a running cap: then his jobs belong into
	// lanes of the user's own, and those found in this one are misrouted.
	IsMisrouted func(user string) bool
	// Budgeted: its jobs reserve what they may use of budgets.
	Budgeted bool
}

// guarded says whether claims from the lane go under its tenant's lock.
func (l *Lane) guarded() bool {
	return len(l.Caps) > 0 || l.IsMisrouted != nil || len(l.Rates) > 0 || l.Budgeted
}

// guarded says whether the claim goes under the locks of tenants.
func (c *Request) guarded() bool {
	return slices.ContainsFunc(c.Lanes, func(lane Lane) bool { return lane.guarded() })
}

// max is how many jobs the workers take.
func (c *Request) max() int {
	most := 0
	for _, worker := range c.Workers {
		most += worker.Max
	}
	return most
}

// bytes is the limit of the jobs' total size.
func (c *Request) bytes() int64 {
	if c.Bytes == 0 {
		return api.MaxClaimBytes
	}
	return int64(c.Bytes)
}

// shares are those of the claim, or the default share.
func (c *Request) shares() []Share {
	if len(c.Shares) > 0 {
		return c.Shares
	}
	all := Share{Most: c.max()}
	for priority := int16(api.MaxPriority); priority >= 0; priority-- {
		for i := range c.Lanes {
			all.Lists = append(all.Lists, ReadyList{Lane: c.Lanes[i].ID, Priority: priority})
		}
	}
	return []Share{all}
}

func (c *Request) byID() map[lanes.ID]*Lane {
	lanes := make(map[lanes.ID]*Lane, len(c.Lanes))
	for i := range c.Lanes {
		lanes[c.Lanes[i].ID] = &c.Lanes[i]
	}
	return lanes
}

// ReadyList is one priority of a lane: its jobs, ordered by (ready_at, id).
type ReadyList struct {
	Lane     lanes.ID
	Priority int16
	// After is where to scan from; the zero Cursor is the head.
	After jobs.Cursor
}

// Share is how many jobs of some lists a claim may take, in the order of lists.
type Share struct {
	Lists []ReadyList
	Most  int
}
