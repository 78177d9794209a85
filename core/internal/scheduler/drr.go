package scheduler

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// DRR divides what workers of many tenants take among the tenants with waiting jobs, by weight. It
// is weighted deficit round robin in the form in which the deficit is stored: level is the time that
// a tenant's jobs have taken, divided by its weight, or where each job counts as one their number.
// The lowest level comes first, and each tenant gets the number of jobs that brings all to one level. A tenant that returns after a pause starts
// at the level of those that waited: a pause earns no credit. (Shreedhar and Varghese, Efficient
// Fair Queuing using Deficit Round Robin, 1996; the level is the virtual time of start-time fair
// queuing, Goyal, Vin and Cheng, 1996.)
//
// The plain form, a fixed quantum for each round, serves claims of one job and claims of a thousand
// unequally: a claim of a thousand gets many rounds at once. A DRR is memory only, and but for Correct
// not safe for concurrent use.
type DRR struct {
	tenants map[tenant.ID]*tenantState
	// calls counts the calls of Allocate.
	calls int
	// floor is the lowest level among the tenants of the last call.
	floor float64

	mu sync.Mutex
	// corrections are what levels are to change by, by tenant.
	corrections map[tenant.ID]float64
}

// Demand is a tenant with waiting jobs.
type Demand struct {
	Tenant tenant.ID
	Weight int
	// Cost is what one of its jobs counts as: the seconds that it is likely to run; 0 for one. Typical is that of a job of
	// any tenant.
	Cost, Typical float64
}

// jobs is how many jobs bring the tenant up by a level of one.
func (d *Demand) jobs() float64 { return float64(d.Weight) / d.cost() }

func (d *Demand) cost() float64 {
	if d.Cost == 0 {
		return 1
	}
	return d.Cost
}

// tenantState is the state of a tenant.
type tenantState struct {
	Demand
	level float64
	// lastCall is the number of the last call in which the tenant had waiting jobs.
	lastCall int
}

// Quota is how many jobs a tenant may take.
type Quota struct {
	Tenant tenant.ID
	Most   int
}

const (
	// MaxQuotas bounds a statement: more lanes cost more than they return.
	MaxQuotas = 25
	// maxStates bounds the levels stored for tenants without waiting jobs.
	maxStates = 10_000
	// maxAhead bounds by how much a tenant's level may be above the lowest one: what it has taken while no other tenant
	// had jobs, which is known only when its attempts end, does not count against it for longer. In average jobs of all,
	// or a tenth as many of its own where those are longer.
	maxAhead = 100.0
)

// Allocate divides n jobs among the tenants, lowest level first: the quotas sum up to n or a little
// more.
func (f *DRR) Allocate(wants []Demand, n int) []Quota {
	if len(wants) == 0 || n <= 0 {
		return nil
	}
	order := f.enter(wants)
	slices.SortFunc(order, func(a, b *tenantState) int {
		if a.level != b.level {
			return cmp.Compare(a.level, b.level)
		}
		return bytes.Compare(a.Tenant[:], b.Tenant[:])
	})
	order = order[:min(len(order), MaxQuotas, n)]
	level := fill(order, n)
	quotas := make([]Quota, 0, len(order))
	for _, one := range order {
		most := int(math.Ceil((level - one.level) * one.jobs()))
		quotas = append(quotas, Quota{one.Tenant, min(max(most, 1), n)})
	}
	return quotas
}

// fill is the level to which n jobs bring the tenants, which are sorted by level.
func fill(order []*tenantState, n int) float64 {
	weights, sum := 0.0, 0.0
	level := 0.0
	for i, one := range order {
		weights += one.jobs()
		sum += one.level * one.jobs()
		level = (float64(n) + sum) / weights
		if i+1 < len(order) && level <= order[i+1].level {
			break // the next tenant is above this level
		}
	}
	return level
}

// enter adds tenants that are new or return, and gives the state of each.
func (f *DRR) enter(wants []Demand) []*tenantState {
	if f.tenants == nil || len(f.tenants) > maxStates+len(wants) {
		f.tenants = map[tenant.ID]*tenantState{}
	}
	f.correct()
	all := make([]*tenantState, len(wants))
	lowest := math.Inf(1)
	for i, one := range wants {
		all[i] = f.state(one.Tenant)
		all[i].Demand = one
		if all[i].lastCall == f.calls {
			lowest = min(lowest, all[i].level)
		}
	}
	if math.IsInf(lowest, 1) {
		lowest = f.floor
	}
	for _, one := range all {
		if one.lastCall != f.calls { // one job behind the others: it is next
			one.level = max(one.level, lowest-1/one.jobs())
		}
		if one.Cost > 0 {
			one.level = min(one.level, lowest+max(maxAhead*one.Typical, maxAhead/10*one.Cost)/float64(one.Weight))
		}
		one.lastCall = f.calls + 1
	}
	f.calls++
	f.floor = lowest
	return all
}

func (f *DRR) state(owner tenant.ID) *tenantState {
	one := f.tenants[owner]
	if one == nil {
		one = &tenantState{Demand: Demand{Tenant: owner}, lastCall: -1}
		f.tenants[owner] = one
	}
	return one
}

// Charge records that a tenant has had a job that counts as cost.
func (f *DRR) Charge(owner tenant.ID, weight int, cost float64) {
	if one := f.tenants[owner]; one != nil { // nil: the state was dropped since
		one.level += cost / float64(max(weight, 1))
	}
}

// Correct records that a job counts as more than it was charged with. It may be called at any time.
func (f *DRR) Correct(owner tenant.ID, weight int, more float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.corrections == nil {
		f.corrections = map[tenant.ID]float64{}
	}
	f.corrections[owner] += more / float64(max(weight, 1))
}

// correct applies corrections to the tenants that are known.
func (f *DRR) correct() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for owner, more := range f.corrections {
		if one := f.tenants[owner]; one != nil {
			one.level += more
		}
	}
	clear(f.corrections)
}
