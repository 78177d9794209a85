package cache

import (
	"context"
	"strings"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// ActiveCaps are the caps on a new job.
func (m *Memory) ActiveCaps(owner tenant.ID, name string, user *string) []caps.Cap {
	if api.SystemQueue(name) {
		return nil
	}
	var list capList
	list.tenantActive(m.Limits.For(owner, store.OrElse(user, "")), owner, store.OrElse(user, ""))
	list.add(caps.CountKey{Tenant: owner, Counter: caps.ActiveQueue, Name: name}, m.Lanes.Settings(owner, name).MaxActive)
	return list
}

// RunningCaps are the caps on a claim from a lane.
func (m *Memory) RunningCaps(lane lanes.Lane, settings queues.Settings) []caps.Cap {
	if api.SystemQueue(lane.Queue) {
		return nil
	}
	var list capList
	limits := m.Limits.For(lane.Tenant, lane.User)
	list.add(caps.CountKey{Tenant: tenant.Platform, Counter: caps.RunningAll}, m.maxRunning)
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
func (m *Memory) Capped(key caps.CountKey) bool {
	limits, settings := m.Limits.For(key.Tenant, key.Name), m.Lanes.Settings(key.Tenant, key.Name)
	return map[caps.Counter]*int64{
		caps.ActiveTenant: limits.MaxActive, caps.ActiveUser: limits.UserMaxActive, caps.ActiveQueue: settings.MaxActive,
		caps.RunningTenant: limits.MaxRunning, caps.RunningUser: limits.UserMaxRunning, caps.RunningQueue: settings.MaxRunning,
		caps.RunningAll: m.maxRunning, caps.RunningType: m.typeCap(key),
	}[key.Counter] != nil
}

// typeCap is the cap of a count of one type.
func (m *Memory) typeCap(key caps.CountKey) *int64 {
	name, jobType, _ := strings.Cut(key.Name, "/")
	return m.Lanes.Settings(key.Tenant, name).Types[jobType].MaxRunning
}

// CapUse gives a tenant's caps, and where user is not empty that user's, with their use.
func (m *Memory) CapUse(ctx context.Context, owner tenant.ID, user string) ([]api.CapUse, error) {
	if err := m.Limits.Load(ctx, owner); err != nil {
		return nil, err
	}
	var list capList
	limits := m.Limits.For(owner, user)
	list.tenantActive(limits, owner, user)
	list.tenantRunning(limits, owner, user)
	used, err := m.store.Tenants.CapUse(ctx, list)
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

// IsCapped says whether the lane's jobs are under a running cap.
func (m *Memory) IsCapped(lane lanes.Lane) bool {
	return len(m.RunningCaps(lane, m.Lanes.Settings(lane.Tenant, lane.Queue))) > 0
}

// MayCapActive says whether any job of the tenant can be under a cap on active jobs.
func (m *Memory) MayCapActive(owner tenant.ID) bool {
	return m.Limits.MayCapActive(owner) || m.Lanes.MayCapActive(owner)
}

// LimitLane adds the caps and the rate of a lane.
func (m *Memory) LimitLane(claim *claim.Lane, lane lanes.Lane, settings queues.Settings) {
	claim.Caps = m.RunningCaps(lane, settings)
	if settings.RatePerSecond != nil {
		claim.Rates = append(claim.Rates, caps.Rate{QueueKey: lane.InQueue(), PerSecond: *settings.RatePerSecond})
	}
	if rate := settings.Types[lane.Type].RatePerSecond; rate != nil {
		key := tenant.QueueKey{Tenant: lane.Tenant, Name: caps.TypeName(lane.Queue, lane.Type)}
		claim.Rates = append(claim.Rates, caps.Rate{QueueKey: key, PerSecond: *rate})
	}
	if lane.User == "" && m.Limits.mayCapUsers(lane.Tenant) {
		claim.IsMisrouted = func(user string) bool { return m.Limits.For(lane.Tenant, user).UserMaxRunning != nil }
	}
}
