package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// cost is what a route's requests are charged to the tenant, the key and the user.
type cost int

const (
	// costRequest is one request. It is the zero value: what costs nothing must say so.
	costRequest cost = iota
	// costJobs is one request and each job that goes on to core. The handler charges
	// it, since it knows them.
	costJobs
	// costReports is what keeps or ends a lease: heartbeats and outcomes. Refused, a busy
	// tenant's jobs would run twice; so they have a bucket of their own, which honest
	// workers cannot reach. The handler charges it, since it knows how many there are.
	costReports
	// costNothing is never refused: questions about limits and about the key itself.
	costNothing
)

// work is what a submit brings.
type work struct {
	// jobs has how many for each user; under "" those that name none.
	jobs map[string]int64
	// takesSlots says that each takes a slot under the caps, or is refused by core as
	// a whole: then a hint may refuse it.
	takesSlots bool
	// reports is how many outcomes or leases a worker reports.
	reports int
}

// charge has admission decide a request, once; what is decided shows in the
// answer's headers. The error is the refusal. Who has no API key is not charged.
func (s *Server) charge(ctx context.Context, c *call, brought work) error {
	key := c.caller.Key
	if key == nil || c.decision != nil {
		return nil
	}
	use := admission.Use{Tenant: key.Tenant, KeyID: key.KeyID, User: key.User, Jobs: brought.jobs, TakesSlots: brought.takesSlots}
	if c.cost == costReports {
		return s.chargeReports(ctx, c, use, brought)
	}
	if c.cost == costNothing {
		c.decision = new(s.limiter.Peek(ctx, admission.NewPeek(use, use.User, limitsOf(key))))
		return nil
	}
	c.decision = new(s.limiter.Admit(ctx, admission.NewRequest(use, limitsOf(key))))
	if refused := refusal(c.decision); refused != nil {
		return refused
	}
	return nil
}

// chargeReports charges a request of a worker, one at least.
func (s *Server) chargeReports(ctx context.Context, c *call, use admission.Use, brought work) error {
	r, limited := admission.NewReports(use, int64(max(brought.reports, 1)), limitsOf(c.caller.Key))
	if !limited {
		c.decision = new(s.limiter.Peek(ctx, r))
		return nil
	}
	c.decision = new(s.limiter.Admit(ctx, r))
	if refused := refusal(c.decision); refused != nil {
		return refused
	}
	return nil
}

// limitsOf gives the limits in force for a user of the key's tenant; a platform
// key has none.
func limitsOf(key *api.HopKey) func(user string) api.Limits {
	var plan api.Limits
	if key.Plan != nil {
		plan = key.Plan.Limits
	}
	return func(user string) api.Limits { return key.Overrides.For(plan, user) }
}

// showLimits sets the headers that tell of a decision, where there was one.
func (c *call) showLimits(header http.Header) {
	if c.decision != nil {
		admission.SetHeaders(header, c.decision)
	}
}

// refusal is what a decision is to the caller; nil where it admits.
func refusal(d *admission.Decision) *problem.Problem {
	switch d.Verdict {
	case admission.RateLimited:
		p := problem.New(problem.RateLimited, "There were too many requests or jobs: "+strings.Join(says(d), "; ")+". Wait as long as Retry-After says.")
		p.Policies = policiesOf(d)
		return p.WithRetryAfter(wholeMilliseconds(d.RetryAfter))
	case admission.CostAboveBurst:
		p := problem.New(problem.CostAboveBurst, "The request can never be admitted as a whole: "+strings.Join(says(d), "; ")+". Split it.")
		p.Policies = policiesOf(d)
		return p
	case admission.CapReached:
		return capReached(d)
	default:
		return nil
	}
}

// says puts each policy that refused into words. A batch may have been refused
// for several users by one policy, which only the words tell apart.
func says(d *admission.Decision) []string {
	const most = 10 // the rest is said by the policies
	var said []string
	for _, policy := range d.Refused() {
		if len(said) == most {
			return append(said, "and more")
		}
		whose := ""
		if policy.User != "" {
			whose = fmt.Sprintf(" of the user %q", request.Clip(policy.User))
		}
		said = append(said, fmt.Sprintf("%s%s allows %d at once and %g a second, has %d left, and this costs %d",
			policy.Name, whose, policy.Limit, policy.Rate, policy.Remaining, policy.Cost))
	}
	return said
}

func policiesOf(d *admission.Decision) []problem.Policy {
	policies := []problem.Policy{}
	for _, refused := range d.Refused() {
		policy := problem.Policy{Name: refused.Name, Limit: refused.Limit, Current: refused.Current()}
		if d.Verdict != admission.CostAboveBurst { // no waiting helps there
			policy.RetryAfterMS = new(wholeMilliseconds(refused.RetryAfter).Milliseconds())
		}
		policies = append(policies, policy)
	}
	return policies
}

// capReached is a refusal by a hint, in the form that core's own has. The hint
// lives for a quarter of a second, the cap may be full for longer: callers that are
// refused together come back apart.
func capReached(d *admission.Decision) *problem.Problem {
	wait := wholeMilliseconds(max(d.RetryAfter, retryAfter()))
	p := problem.New(problem.ActiveCapReached, "There is no room for another job: a cap on active jobs was full a moment ago. Try again when jobs have ended, or cancel some.")
	if full := d.Cap; full != nil && full.Scope != "" {
		p.Policies = append(p.Policies, problem.Policy{
			Name: full.Scope + "-" + full.Kind, Limit: full.Limit, Current: full.Used, RetryAfterMS: new(wait.Milliseconds()),
		})
	}
	return p.WithRetryAfter(wait)
}

// What core calls the caps that hints tell of.
const (
	capTenantActive = "tenant-active"
	capUserActive   = "user-active"
	scopeTenant     = "tenant"
	scopeUser       = "user"
	kindActive      = "active"
)

// hintFull tells all gateways of a cap that core has just found full, so that it
// need not say so again for a quarter of a second. user is whose jobs they were;
// empty where there were several. A cap that had some room, only too little for
// all of a batch, is not full.
func (s *Server) hintFull(ctx context.Context, c *call, user string, err error) {
	told, ok := problem.From(err)
	if !ok || told.Code != problem.ActiveCapReached {
		return
	}
	for _, policy := range told.Policies {
		full := api.CapUse{Kind: kindActive, Limit: policy.Limit, Used: policy.Current}
		switch {
		case policy.Current < policy.Limit:
		case policy.Name == capTenantActive:
			full.Scope = scopeTenant
			s.limiter.CapReached(ctx, c.principal().Tenant, "", full)
		case policy.Name == capUserActive && user != "":
			full.Scope = scopeUser
			s.limiter.CapReached(ctx, c.principal().Tenant, user, full)
		}
	}
}
