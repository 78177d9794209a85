package push

import (
	"github.com/sony/gobreaker/v2"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Room is how many more jobs of a queue this core may start now. It is only a hint:
// what is claimed beyond it is given back.
func (e *Executor) Room(key queue.QueueKey) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, known := e.targets[key]
	if !known { // new since the last look at the settings: found out once it is claimed
		return min(e.most-e.inFlight, part(e.most, destinationPart))
	}
	return e.room(t)
}

func part(whole, n int) int { return max(whole/n, 1) }

// room is called with the lock held.
func (e *Executor) room(t *target) int {
	if t.usable() == nil {
		return 0
	}
	room := min(e.most-e.inFlight, part(e.most, tenantPart)-e.byTenant[t.settings.Tenant], part(e.most, destinationPart)-t.breaker.inFlight)
	switch t.breaker.circuit.State() {
	case gobreaker.StateOpen:
		return 0
	case gobreaker.StateHalfOpen:
		room = min(room, t.breaker.probes())
	case gobreaker.StateClosed:
	}
	return max(room, 0)
}

// mostNow is how many jobs a claim may take; 0 where no queue has room.
func (e *Executor) mostNow() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	some := len(e.targets) == 0
	for _, t := range e.targets {
		some = some || e.room(t) > 0
	}
	if !some {
		return 0
	}
	return max(min(e.most-e.inFlight, mostAtOnce), 0)
}

// admit takes a slot for a job of the target, if there is one.
func (e *Executor) admit(t *target) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.room(t) == 0 {
		return false
	}
	e.inFlight++
	e.byTenant[t.settings.Tenant]++
	t.breaker.inFlight++
	t.breaker.waiting++
	e.metrics.InFlight.Set(float64(e.inFlight))
	return true
}

// called says that the job is with its breaker now.
func (e *Executor) called(t *target) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.breaker.waiting--
}

// leave gives the slot back.
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

// Breaker shows the breaker of a queue in push mode, as this core sees it.
func (e *Executor) Breaker(key queue.QueueKey) *api.Breaker {
	e.mu.Lock()
	t, known := e.targets[key]
	e.mu.Unlock()
	if !known || t.breaker == nil {
		return &api.Breaker{State: api.BreakerClosed}
	}
	return t.breaker.shown()
}
