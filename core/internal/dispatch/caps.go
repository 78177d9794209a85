package dispatch

import (
	"context"
	"strings"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
)

// activeCaps are the caps on a new job.
func (d *Dispatcher) activeCaps(owner tenant.ID, name string, user *string) []usage.Cap {
	if api.SystemQueue(name) {
		return nil
	}
	var caps capList
	caps.tenantActive(d.limits.For(owner, null.Or(user, "")), owner, null.Or(user, ""))
	caps.add(usage.CountKey{Tenant: owner, Counter: usage.ActiveQueue, Name: name}, d.lanes.Settings(owner, name).MaxActive)
	return caps
}

// runningCaps are the caps on a claim from a lane.
func (d *Dispatcher) runningCaps(lane directory.Lane, settings directory.QueueSettings) []usage.Cap {
	if api.SystemQueue(lane.Queue) {
		return nil
	}
	var caps capList
	limits := d.limits.For(lane.Tenant, lane.User)
	caps.add(usage.CountKey{Tenant: tenant.Platform, Counter: usage.RunningAll}, d.maxRunning)
	caps.tenantRunning(limits, lane.Tenant, lane.User)
	caps.add(usage.CountKey{Tenant: lane.Tenant, Counter: usage.RunningQueue, Name: lane.Queue}, settings.MaxRunning)
	caps.add(usage.CountKey{Tenant: lane.Tenant, Counter: usage.RunningType, Name: usage.TypeName(lane.Queue, lane.Type)}, settings.Types[lane.Type].MaxRunning)
	return caps
}

type capList []usage.Cap

func (c *capList) add(key usage.CountKey, limit *int64) {
	if limit != nil {
		*c = append(*c, usage.Cap{CountKey: key, Limit: *limit})
	}
}

func (c *capList) tenantActive(limits api.Limits, owner tenant.ID, user string) {
	c.add(usage.CountKey{Tenant: owner, Counter: usage.ActiveTenant}, limits.MaxActive)
	if user != "" {
		c.add(usage.CountKey{Tenant: owner, Counter: usage.ActiveUser, Name: user}, limits.UserMaxActive)
	}
}

func (c *capList) tenantRunning(limits api.Limits, owner tenant.ID, user string) {
	c.add(usage.CountKey{Tenant: owner, Counter: usage.RunningTenant}, limits.MaxRunning)
	if user != "" {
		c.add(usage.CountKey{Tenant: owner, Counter: usage.RunningUser, Name: user}, limits.UserMaxRunning)
	}
}

// Capped says whether a count still has a cap.
func (d *Dispatcher) Capped(key usage.CountKey) bool {
	limits, settings := d.limits.For(key.Tenant, key.Name), d.lanes.Settings(key.Tenant, key.Name)
	return map[usage.Counter]*int64{
		usage.ActiveTenant: limits.MaxActive, usage.ActiveUser: limits.UserMaxActive, usage.ActiveQueue: settings.MaxActive,
		usage.RunningTenant: limits.MaxRunning, usage.RunningUser: limits.UserMaxRunning, usage.RunningQueue: settings.MaxRunning,
		usage.RunningAll: d.maxRunning, usage.RunningType: d.typeCap(key),
	}[key.Counter] != nil
}

// typeCap is the cap of a count of one type.
func (d *Dispatcher) typeCap(key usage.CountKey) *int64 {
	name, jobType, _ := strings.Cut(key.Name, "/")
	return d.lanes.Settings(key.Tenant, name).Types[jobType].MaxRunning
}

// CapUse gives a tenant's caps, and where user is not empty that user's, with their use.
func (d *Dispatcher) CapUse(ctx context.Context, owner tenant.ID, user string) ([]api.CapUse, error) {
	if err := d.limits.Load(ctx, owner); err != nil {
		return nil, err
	}
	var caps capList
	limits := d.limits.For(owner, user)
	caps.tenantActive(limits, owner, user)
	caps.tenantRunning(limits, owner, user)
	used, err := d.store.Directory.CapUse(ctx, caps)
	if err != nil {
		return nil, err
	}
	shown := make([]api.CapUse, 0, len(used))
	for _, one := range used {
		use := api.CapUse{Scope: "tenant", Kind: "active", Limit: one.Limit, Used: one.Used}
		if one.Name != "" {
			use.Scope = "user"
		}
		if one.Counter&(usage.RunningTenant|usage.RunningUser) != 0 {
			use.Kind = "running"
		}
		shown = append(shown, use)
	}
	return shown, nil
}
