package push

import (
	"github.com/sony/gobreaker/v2"

	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Capacity is this core's capacity by queue. It is only a hint: jobs claimed above it are returned.
func (e *Executor) Capacity() scheduler.Capacity { return &planned{executor: e} }

// planned is what one scan plans to take in addition to the jobs in flight.
type planned struct {
	executor  *Executor
	jobs      int
	byTenant  map[tenant.ID]int
	byBreaker map[*breaker]int
	byUnknown map[tenant.QueueKey]int
}

// Of implements scheduler.Capacity.
func (p *planned) Of(key tenant.QueueKey) int {
	e := p.executor
	e.mu.Lock()
	defer e.mu.Unlock()
	t, known := e.targets[key]
	if !known { // newer than the copy of the settings: checked after the claim
		return max(min(
			e.most-e.inFlight-p.jobs,
			part(e.most, tenantPart)-e.byTenant[key.Tenant]-p.byTenant[key.Tenant],
			part(e.most, destinationPart)-p.byUnknown[key],
		), 0)
	}
	return e.capacity(t, p)
}

// Take implements scheduler.Capacity.
func (p *planned) Take(key tenant.QueueKey, n int) {
	p.executor.mu.Lock()
	t := p.executor.targets[key]
	p.executor.mu.Unlock()
	if p.byTenant == nil {
		p.byTenant, p.byBreaker, p.byUnknown = map[tenant.ID]int{}, map[*breaker]int{}, map[tenant.QueueKey]int{}
	}
	p.jobs += n
	p.byTenant[key.Tenant] += n
	switch {
	case t == nil:
		p.byUnknown[key] += n
	case t.breaker != nil:
		p.byBreaker[t.breaker] += n
	}
}

func part(whole, n int) int { return max(whole/n, 1) }

// nothing is an empty plan.
var nothing = &planned{}

// capacity is the capacity left after what is planned. The caller holds the lock.
func (e *Executor) capacity(t *target, p *planned) int {
	if t.usable() == nil {
		return 0
	}
	left := min(
		e.most-e.inFlight-p.jobs,
		part(e.most, tenantPart)-e.byTenant[t.settings.Tenant]-p.byTenant[t.settings.Tenant],
		part(e.most, destinationPart)-t.breaker.inFlight-p.byBreaker[t.breaker],
	)
	switch t.breaker.state() {
	case gobreaker.StateOpen:
		return 0
	case gobreaker.StateHalfOpen:
		left = min(left, t.breaker.probes()-p.byBreaker[t.breaker])
	case gobreaker.StateClosed:
	}
	return max(left, 0)
}

// maxNow is how many jobs a claim may take; 0 where no queue has capacity.
func (e *Executor) maxNow() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	most := max(min(e.most-e.inFlight, mostAtOnce), 0)
	if most == 0 || len(e.targets) == 0 {
		return most
	}
	for _, t := range e.targets { // mostly the first one
		if e.capacity(t, nothing) > 0 {
			return most
		}
	}
	return 0
}

// admit takes a slot for a job of the target, if one is free.
func (e *Executor) admit(t *target) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.capacity(t, nothing) == 0 {
		return false
	}
	e.inFlight++
	e.byTenant[t.settings.Tenant]++
	t.breaker.inFlight++
	t.breaker.waiting++
	e.metrics.InFlight.Set(float64(e.inFlight))
	return true
}

// called says that the breaker has counted the job's call.
func (e *Executor) called(t *target) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.breaker.waiting--
}

// leave releases the slot.
func (e *Executor) leave(t *target) {
	e.mu.Lock()
	e.inFlight--
	if e.byTenant[t.settings.Tenant]--; e.byTenant[t.settings.Tenant] == 0 {
		delete(e.byTenant, t.settings.Tenant)
	}
	t.breaker.inFlight--
	e.metrics.InFlight.Set(float64(e.inFlight))
	e.mu.Unlock()
	e.kick()
}

// Probe lets the next calls of a queue in push mode through, in this core, although the breaker is open. probes is
// how often that was asked for: once for each number.
func (e *Executor) Probe(key tenant.QueueKey, probes int64) {
	e.mu.Lock()
	t, known := e.targets[key]
	fresh := known && t.breaker != nil && t.probes != probes
	if fresh {
		t.probes = probes
	}
	e.mu.Unlock()
	if fresh {
		t.breaker.tryNow()
	}
}

// Breaker gives the breaker of a queue in push mode, in this core.
func (e *Executor) Breaker(key tenant.QueueKey) *api.Breaker {
	e.mu.Lock()
	t, known := e.targets[key]
	e.mu.Unlock()
	if !known || t.breaker == nil {
		return &api.Breaker{State: api.BreakerClosed}
	}
	return t.breaker.shown()
}
