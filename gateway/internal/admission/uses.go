package admission

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const (
	// reportEvery is how often uses are reported, each time by a few rows for each tenant that asked for anything. A gateway
	// that is killed loses what it had not reported.
	reportEvery = 20 * time.Second
	// reportTime is how long a report may take, at the end of a gateway too.
	reportTime = 5 * time.Second
	// mostNamed bounds the users and keys of a tenant in one report, as core does: a tenant draws its users' names.
	mostNamed = 1_000
	// mostUses bounds all uses of a report.
	mostUses = 100_000
	// reportsAtOnce is how many tenants' uses are sent together.
	reportsAtOnce = 100
)

// uses counts what was admitted and refused since the last report. What finds no place is not counted.
type uses struct {
	mu      sync.Mutex
	tenants map[string]*tenantUses
	size    int
}

// tenantUses are a tenant's. Every request of the gateway counts here while others wait: the limits are few, so that a list
// of them is faster than a map.
type tenantUses struct {
	limits []hop.LimitUse
	// named are what users and keys were refused.
	named map[useKey]*hop.LimitUse
}

type useKey struct{ limit, name string }

// count notes a decision that the payer was charged by.
func (u *uses) count(a *Payer, cost *Cost) {
	d, tenant := a.Decision, a.Key.Tenant
	if tenant == "" { // the platform's keys have no page of limits
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if d.Verdict == bucket.CapReached {
		u.countCap(a, cost)
		return
	}
	var of *tenantUses
	for i := range d.Policies {
		p := &d.Policies[i]
		use := hop.LimitUse{Limit: p.Name, Allowed: perMinute(p.Rate)}
		switch {
		case d.Verdict == bucket.Admitted:
			use.Used = p.Cost
		case p.Refused:
			use.Refused = p.Cost
		}
		if use.Used+use.Refused == 0 {
			continue // it was only shown, or another bucket refused
		}
		if of == nil {
			if of = u.of(tenant); of == nil {
				return
			}
		}
		u.add(of, &use, a.owner(p))
	}
}

// countCap notes what a hint has refused: core never sees it.
func (u *uses) countCap(a *Payer, cost *Cost) {
	full := a.Decision.Cap
	if full == nil || full.Scope == "" {
		return
	}
	use := hop.LimitUse{Limit: full.Scope + "-" + full.Kind, Used: full.Used, Allowed: full.Limit}
	for _, n := range cost.jobs {
		use.Refused += n
	}
	owner := ""
	if full.Scope == scopeUser {
		if owner = a.Key.User; owner == "" {
			owner = cost.onlyUser()
		}
	}
	if of := u.of(a.Key.Tenant); of != nil {
		u.add(of, &use, owner)
	}
}

// owner is the user or the key whose limit a policy is; empty for the tenant's.
func (p *Payer) owner(policy *bucket.PolicyState) string {
	switch policy.Name {
	case PolicyCredentialRequests, PolicyCredentialJobs:
		return p.Key.KeyID
	default:
		return policy.User
	}
}

// add counts a use of the tenant's limit; or of all users' or keys' limits, and of owner's own if it was refused.
func (u *uses) add(of *tenantUses, use *hop.LimitUse, owner string) {
	if owner != "" && use.Refused > 0 {
		own := *use
		own.Name = owner
		u.sum(of, &own)
	}
	if owner != "" && use.Limit != capUserActive {
		use.Allowed = 0 // each has its own
	}
	u.sum(of, use)
}

// of are the tenant's uses; nil where there is no place for them.
func (u *uses) of(tenant string) *tenantUses {
	of := u.tenants[tenant]
	if of != nil || u.size >= mostUses {
		return of
	}
	if u.tenants == nil {
		u.tenants = map[string]*tenantUses{}
	}
	of = &tenantUses{}
	u.tenants[tenant] = of
	return of
}

func (u *uses) sum(of *tenantUses, use *hop.LimitUse) {
	sum := of.find(use)
	if sum == nil {
		if u.size >= mostUses || use.Name != "" && len(of.named) >= mostNamed {
			return
		}
		u.size++
		if use.Name == "" {
			of.limits = append(of.limits, *use)
			return
		}
		if of.named == nil {
			of.named = map[useKey]*hop.LimitUse{}
		}
		of.named[useKey{use.Limit, use.Name}] = new(*use)
		return
	}
	if use.Limit == capTenantActive || use.Limit == capUserActive {
		sum.Used = max(sum.Used, use.Used)
	} else {
		sum.Used += use.Used
	}
	sum.Allowed = max(sum.Allowed, use.Allowed)
	sum.Refused += use.Refused
}

// find is what was counted of the same limit, or of the same user's or key's; nil for nothing.
func (of *tenantUses) find(use *hop.LimitUse) *hop.LimitUse {
	if use.Name != "" {
		return of.named[useKey{use.Limit, use.Name}]
	}
	for i := range of.limits {
		if of.limits[i].Limit == use.Limit {
			return &of.limits[i]
		}
	}
	return nil
}

// take gives what was counted, by tenant, and forgets it.
func (u *uses) take() map[string]*tenantUses {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.tenants
	u.tenants, u.size = nil, 0
	return taken
}

// perMinute is a rate as charts have it.
func perMinute(perSecond float64) int64 {
	const most = 1 << 50
	return int64(min(perSecond*60, most) + 0.5)
}

// Report sends what was admitted and refused, by tenant, every twenty seconds until ctx ends, and then what is left. What
// cannot be sent is dropped: it is for charts.
func (l *Limiter) Report(ctx context.Context, send func(ctx context.Context, tenant string, uses []hop.LimitUse) error) {
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ended = true
		}
		l.report(context.WithoutCancel(ctx), send)
	}
}

func (l *Limiter) report(ctx context.Context, send func(ctx context.Context, tenant string, uses []hop.LimitUse) error) {
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(reportsAtOnce)
	for tenant, of := range l.uses.take() {
		group.Go(func() error {
			uses := of.limits
			for _, use := range of.named {
				uses = append(uses, *use)
			}
			if err := send(ctx, tenant, uses); err != nil {
				l.logger.DebugContext(ctx, "uses of limits were not reported", "error", err)
			}
			return nil
		})
	}
	_ = group.Wait()
}
