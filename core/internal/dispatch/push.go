package dispatch

import (
	"sync/atomic"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// breakers asks whoever pushes for the breaker of a queue in push mode.
type breakers struct {
	ask atomic.Pointer[func(tenant.QueueKey) *api.Breaker]
}

// ShowBreakers says who knows the breakers of queues in push mode.
func (d *Dispatcher) ShowBreakers(ask func(tenant.QueueKey) *api.Breaker) { d.breakers.ask.Store(&ask) }

// breaker is a queue's, nil where nobody knows one.
func (d *Dispatcher) breaker(key tenant.QueueKey) *api.Breaker {
	if ask := d.breakers.ask.Load(); ask != nil {
		return (*ask)(key)
	}
	return nil
}

// Settings gives a queue's settings as this core knows them; all defaults for one
// that it does not.
func (d *Dispatcher) Settings(owner tenant.ID, name string) directory.QueueSettings {
	return d.lanes.Settings(owner, name)
}

// PushQueues gives the settings of all tenants' queues in push mode.
func (d *Dispatcher) PushQueues() []directory.QueueSettings { return d.lanes.PushSettings() }
