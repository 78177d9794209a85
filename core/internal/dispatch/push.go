package dispatch

import (
	"context"
	"sync/atomic"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// breakers are those of queues in push mode, which the executor has.
type breakers struct {
	lookup atomic.Pointer[func(tenant.QueueKey) *api.Breaker]
	probe  atomic.Pointer[func(key tenant.QueueKey, probes int64)]
}

// ShowBreakers sets the source of the breakers of queues in push mode.
func (d *Dispatcher) ShowBreakers(ask func(tenant.QueueKey) *api.Breaker) {
	d.breakers.lookup.Store(&ask)
}

// ProbeBreakers sets what is called where a destination is to be tried before its breaker's time; probes is how
// often that was asked for.
func (d *Dispatcher) ProbeBreakers(tell func(key tenant.QueueKey, probes int64)) {
	d.breakers.probe.Store(&tell)
}

// ProbeQueue lets the next calls of a tenant's queue in push mode through, although its breaker is open: here
// at once, in other cores within a refresh, or at once with Redis. Where the breaker is closed nothing changes.
func (d *Dispatcher) ProbeQueue(ctx context.Context, owner tenant.ID, name string) (api.Queue, error) {
	done := audit.Event{Tenant: &owner, Action: api.AuditQueueProbe, Object: name}
	if err := d.probeDestination(ctx, tenant.QueueKey{Tenant: owner, Name: name}, done); err != nil {
		return api.Queue{}, err
	}
	return d.Queue(ctx, owner, name)
}

// ProbeWebhook does the same for a tenant's webhook.
func (d *Dispatcher) ProbeWebhook(ctx context.Context, owner tenant.ID, name string) (api.Webhook, error) {
	if err := d.store.Webhooks.CheckWebhook(ctx, owner, name); err != nil {
		return api.Webhook{}, err
	}
	done := audit.Event{Tenant: &owner, Action: api.AuditWebhookProbe, Object: name}
	if err := d.probeDestination(ctx, tenant.QueueKey{Tenant: owner, Name: api.WebhookQueue(name)}, done); err != nil {
		return api.Webhook{}, err
	}
	return d.Webhook(ctx, owner, name)
}

func (d *Dispatcher) probeDestination(ctx context.Context, key tenant.QueueKey, done audit.Event) error {
	probes, err := d.store.Queues.Probe(ctx, key.Tenant, key.Name, done)
	if err != nil {
		return err
	}
	d.publishSettings()
	if tell := d.breakers.probe.Load(); tell != nil {
		(*tell)(key, probes)
	}
	return nil
}

// breaker is a queue's, nil where there is none.
func (d *Dispatcher) breaker(key tenant.QueueKey) *api.Breaker {
	if ask := d.breakers.lookup.Load(); ask != nil {
		return (*ask)(key)
	}
	return nil
}

// Settings gives a queue's settings in this core's cache; all defaults for an unknown queue.
func (d *Dispatcher) Settings(owner tenant.ID, name string) queues.Settings {
	return d.lanes.Settings(owner, name)
}

// PushQueues gives the settings of all tenants' queues in push mode, unless changes, which it gives, are still as known.
func (d *Dispatcher) PushQueues(known int) (queues []queues.Settings, changes int) {
	return d.lanes.PushSettings(known)
}
