package dispatch

import (
	"sync/atomic"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// breakers gives the breaker of a queue in push mode, from the executor.
type breakers struct {
	lookup atomic.Pointer[func(tenant.QueueKey) *api.Breaker]
}

// ShowBreakers sets the source of the breakers of queues in push mode.
func (d *Dispatcher) ShowBreakers(ask func(tenant.QueueKey) *api.Breaker) {
	d.breakers.lookup.Store(&ask)
}

// breaker is a queue's, nil where there is none.
func (d *Dispatcher) breaker(key tenant.QueueKey) *api.Breaker {
	if ask := d.breakers.lookup.Load(); ask != nil {
		return (*ask)(key)
	}
	return nil
}

// Settings gives a queue's settings in this core's cache; all defaults for an unknown queue.
func (d *Dispatcher) Settings(owner tenant.ID, name string) directory.QueueSettings {
	return d.lanes.Settings(owner, name)
}

// PushQueues gives the settings of all tenants' queues in push mode.
func (d *Dispatcher) PushQueues() []directory.QueueSettings { return d.lanes.PushSettings() }
