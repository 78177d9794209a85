package admission

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// CostKind says how the cost of a route's requests is determined, which are charged to the tenant, the key and the user.
type CostKind int

const (
	// CostRequest is one request. It is the zero value: what costs nothing must say so.
	CostRequest CostKind = iota
	// CostJobs is one request and each job that is sent to core. It is known when the
	// body was read.
	CostJobs
	// CostReports is what renews or ends a lease: heartbeats and outcomes. If they were
	// refused, a busy tenant's jobs would run twice; so they have their own bucket, which
	// correct workers do not empty. It is known when the body was read. One that also submits jobs is charged as a
	// submit.
	CostReports
	// CostNothing is never refused: questions about limits and about the key itself.
	CostNothing
)

// KnownEarly says that the cost is known before the body: what is refused need not be read.
func (k CostKind) KnownEarly() bool { return k == CostRequest || k == CostNothing }

// Cost is what a request is charged for; the zero value is the request alone.
type Cost struct {
	// jobs has how many for each user; under "" those without a user.
	jobs map[string]int64
	// takesSlots says that each takes a slot under the caps, or is refused by core as
	// a whole: then a hint may refuse it.
	takesSlots bool
	// reports is how many outcomes or leases a worker reports.
	reports int
}

// Submit is the cost of a submit, to which Add adds the jobs that go on to core. whole
// says that core refuses it as a whole where a cap is full: a single job, or an atomic
// batch; of any other batch core takes what fits, and each job has an answer of its own.
// keyed says that it has an Idempotency-Key, and so may be a replay, which takes no slot.
func Submit(whole, keyed bool) Cost {
	return Cost{takesSlots: whole && !keyed}
}

// Add counts a job. One with a dedupe_key may turn out to be there already, and
// then takes no slot.
func (c *Cost) Add(job *api.SubmitRequest) {
	if c.jobs == nil {
		c.jobs = map[string]int64{}
	}
	user := ""
	if job.User != nil {
		user = *job.User
	}
	c.jobs[user]++
	c.takesSlots = c.takesSlots && job.DedupeKeyOf() == nil
}

// onlyUser is the user of all the jobs; empty if they have none or several.
func (c *Cost) onlyUser() string {
	if len(c.jobs) != 1 {
		return ""
	}
	for user := range c.jobs {
		return user
	}
	return ""
}

// Reports is the cost of a worker that reports so many outcomes or leases.
func Reports(n int) Cost { return Cost{reports: n} }

// Payer is the caller that a request is charged to, and the decision.
type Payer struct {
	// Key is the API key of the caller; nil: not charged.
	Key  *hop.KeyRecord
	Kind CostKind
	// Decision is nil until it is made, and where none is.
	Decision *Decision
}

// RefusedError is a request that admission refused.
type RefusedError struct{ Decision *Decision }

func (e *RefusedError) Error() string { return "admission: " + e.Decision.Verdict.String() }

// Charge decides a request, once: a repeat does nothing. The error is a *RefusedError.
func (l *Limiter) Charge(ctx context.Context, p *Payer, cost Cost) error {
	if p.Key == nil || p.Decision != nil {
		return nil
	}
	charged, pays := p.request(cost)
	if !pays {
		p.Decision = new(l.Peek(ctx, charged))
		return nil
	}
	p.Decision = new(l.Admit(ctx, charged))
	l.uses.count(p, &cost)
	if p.Decision.Verdict != bucket.Admitted {
		return &RefusedError{p.Decision}
	}
	return nil
}

// request lists what the cost is charged to; pays is false where it is only looked at.
func (p *Payer) request(cost Cost) (r bucket.Request, pays bool) {
	use := p.use()
	switch {
	case p.Kind == CostNothing:
		return NewPeek(use, use.User, p.limits), false
	case p.Kind == CostReports && len(cost.jobs) == 0:
		return NewReports(use, int64(max(cost.reports, 1)), p.limits) // one without any is one
	default:
		use.Jobs, use.TakesSlots = cost.jobs, cost.takesSlots
		return NewRequest(use, p.limits), true
	}
}

// Look decides nothing: it reads the buckets of the payer, and of user if that is
// not empty.
func (l *Limiter) Look(ctx context.Context, p *Payer, user string) {
	p.Decision = new(l.Peek(ctx, NewPeek(p.use(), user, p.limits)))
}

func (p *Payer) use() Use {
	return Use{Tenant: p.Key.Tenant, KeyID: p.Key.KeyID, User: p.Key.User}
}

// limits gives the limits in force for a user of the key's tenant; a platform
// key has none.
func (p *Payer) limits(user string) api.Limits {
	var plan api.Limits
	if p.Key.Plan != nil {
		plan = p.Key.Plan.Limits
	}
	return p.Key.Overrides.For(plan, user)
}

// Capped says whether the payer's jobs come under a cap on active jobs by the limits
// of the key; the settings of queues only core knows.
func (p *Payer) Capped() bool {
	if p.Key == nil {
		return false
	}
	limits := p.limits(p.Key.User)
	return limits.MaxActive != nil || limits.UserMaxActive != nil || (p.Key.Overrides != nil && len(p.Key.Overrides.Users) > 0)
}
