package dispatch

import (
	"context"
	"strings"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// activeCaps are the caps on a new job.
func (d *Dispatcher) activeCaps(owner tenant.ID, name string, user *string) []caps.Cap {
	if api.SystemQueue(name) {
		return nil
	}
	var list capList
	list.tenantActive(d.limits.For(owner, null.Or(user, "")), owner, null.Or(user, ""))
	list.add(caps.CountKey{Tenant: owner, Counter: caps.ActiveQueue, Name: name}, d.lanes.Settings(owner, name).MaxActive)
	return list
}

// runningCaps are the caps on a claim from a lane.
func (d *Dispatcher) runningCaps(lane lanes.Lane, settings queues.Settings) []caps.Cap {
	if api.SystemQueue(lane.Queue) {
		return nil
	}
	var list capList
	limits := d.limits.For(lane.Tenant, lane.User)
	list.add(caps.CountKey{Tenant: tenant.Platform, Counter: caps.RunningAll}, d.maxRunning)
	list.tenantRunning(limits, lane.Tenant, lane.User)
	list.add(caps.CountKey{Tenant: lane.Tenant, Counter: caps.RunningQueue, Name: lane.Queue}, settings.MaxRunning)
	list.add(caps.CountKey{Tenant: lane.Tenant, Counter: caps.RunningType, Name: caps.TypeName(lane.Queue, lane.Type)}, settings.Types[lane.Type].MaxRunning)
	return list
}

type capList []caps.Cap

func (c *capList) add(key caps.CountKey, limit *int64) {
	if limit != nil {
		*c = append(*c, caps.Cap{CountKey: key, Limit: *limit})
	}
}

func (c *capList) tenantActive(limits api.Limits, owner tenant.ID, user string) {
	c.add(caps.CountKey{Tenant: owner, Counter: caps.ActiveTenant}, limits.MaxActive)
	if user != "" {
		c.add(caps.CountKey{Tenant: owner, Counter: caps.ActiveUser, Name: user}, limits.UserMaxActive)
	}
}

func (c *capList) tenantRunning(limits api.Limits, owner tenant.ID, user string) {
	c.add(caps.CountKey{Tenant: owner, Counter: caps.RunningTenant}, limits.MaxRunning)
	if user != "" {
		c.add(caps.CountKey{Tenant: owner, Counter: caps.RunningUser, Name: user}, limits.UserMaxRunning)
	}
}

// Capped says whether a count still has a cap.
func (d *Dispatcher) Capped(key caps.CountKey) bool {
	limits, settings := d.limits.For(key.Tenant, key.Name), d.lanes.Settings(key.Tenant, key.Name)
	return map[caps.Counter]*int64{
		caps.ActiveTenant: limits.MaxActive, caps.ActiveUser: limits.UserMaxActive, caps.ActiveQueue: settings.MaxActive,
		caps.RunningTenant: limits.MaxRunning, caps.RunningUser: limits.UserMaxRunning, caps.RunningQueue: settings.MaxRunning,
		caps.RunningAll: d.maxRunning, caps.RunningType: d.typeCap(key),
	}[key.Counter] != nil
}

// typeCap is the cap of a count of one type.
func (d *Dispatcher) typeCap(key caps.CountKey) *int64 {
	name, jobType, _ := strings.Cut(key.Name, "/")
	return d.lanes.Settings(key.Tenant, name).Types[jobType].MaxRunning
}

// CapUse gives a tenant's caps, and where user is not empty that user's, with their use.
func (d *Dispatcher) CapUse(ctx context.Context, owner tenant.ID, user string) ([]api.CapUse, error) {
	if err := d.limits.Load(ctx, owner); err != nil {
		return nil, err
	}
	var list capList
	limits := d.limits.For(owner, user)
	list.tenantActive(limits, owner, user)
	list.tenantRunning(limits, owner, user)
	used, err := d.store.Tenants.CapUse(ctx, list)
	if err != nil {
		return nil, err
	}
	shown := make([]api.CapUse, 0, len(used))
	for _, one := range used {
		use := api.CapUse{Scope: "tenant", Kind: "active", Limit: one.Limit, Used: one.Used}
		if one.Name != "" {
			use.Scope = "user"
		}
		if one.Counter&(caps.RunningTenant|caps.RunningUser) != 0 {
			use.Kind = "running"
		}
		shown = append(shown, use)
	}
	return shown, nil
}
