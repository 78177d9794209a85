package httpapi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// refusalOf turns a refusal of admission into a problem.
func refusalOf(err error) (*problem.Problem, bool) {
	if refused, ok := errors.AsType[*admission.RefusedError](err); ok {
		return refusal(refused.Decision), true
	}
	if refused, ok := errors.AsType[*admission.AddressRefusedError](err); ok {
		return addressRefusal(refused), true
	}
	return nil, false
}

// refusal is the problem of a decision that refuses.
func refusal(d *admission.Decision) *problem.Problem {
	switch d.Verdict {
	case bucket.RateLimited:
		p := problem.New(problem.RateLimited, "A rate limit was reached: "+strings.Join(refusals(d), "; ")+". Try again after Retry-After.")
		p.Policies = policiesOf(d)
		return p.WithRetryAfter(admission.WholeMilliseconds(d.RetryAfter))
	case bucket.CostAboveBurst:
		p := problem.New(problem.CostAboveBurst, "The request costs more than a limit allows at once: "+strings.Join(refusals(d), "; ")+". Split the request.")
		p.Policies = policiesOf(d)
		return p
	default:
		return capReached(d)
	}
}

// refusals describes each policy that refused. A batch may have been refused for
// several users by one policy; only the text distinguishes them.
func refusals(d *admission.Decision) []string {
	const most = 10 // the rest is in the policies
	var texts []string
	for _, policy := range d.Refused() {
		if len(texts) == most {
			return append(texts, "and more")
		}
		whose := ""
		if policy.User != "" {
			whose = fmt.Sprintf(" of the user %q", request.Clip(policy.User))
		}
		texts = append(texts, fmt.Sprintf("%s%s allows %d at once and %g a second; %d are left, and the request costs %d",
			policy.Name, whose, policy.Limit, policy.Rate, policy.Remaining, policy.Cost))
	}
	return texts
}

func policiesOf(d *admission.Decision) []problem.Policy {
	policies := []problem.Policy{}
	for _, refused := range d.Refused() {
		policy := problem.Policy{Name: refused.Name, Limit: refused.Limit, Current: refused.Current()}
		if d.Verdict != bucket.CostAboveBurst { // a retry would not help there
			policy.RetryAfterMS = new(admission.WholeMilliseconds(refused.RetryAfter).Milliseconds())
		}
		policies = append(policies, policy)
	}
	return policies
}

// capReached is a refusal by a hint, in the form of core's own. The hint expires
// after 250 ms, the cap may be full for longer: jitter spreads the retries of callers
// that are refused at the same time.
func capReached(d *admission.Decision) *problem.Problem {
	wait := admission.WholeMilliseconds(max(d.RetryAfter, retryAfter()))
	p := problem.New(problem.ActiveCapReached, "A cap on active jobs was reached a moment ago. Try again when jobs have ended, or cancel some.")
	if full := d.Cap; full != nil && full.Scope != "" {
		p.Policies = append(p.Policies, problem.Policy{
			Name: full.Scope + "-" + full.Kind, Limit: full.Limit, Current: full.Used, RetryAfterMS: new(wait.Milliseconds()),
		})
	}
	return p.WithRetryAfter(wait)
}

func addressRefusal(refused *admission.AddressRefusedError) *problem.Problem {
	detail := "This address has sent too many requests."
	if refused.Policy == admission.PolicyFailedKeys {
		detail = "This address has sent too many invalid credentials."
	}
	wait := admission.WholeMilliseconds(refused.RetryAfter)
	burst := int64(refused.Burst)
	p := problem.New(problem.RateLimited, detail+" Try again after Retry-After.")
	p.Policies = append(p.Policies, problem.Policy{Name: refused.Policy, Limit: burst, Current: burst, RetryAfterMS: new(wait.Milliseconds())})
	return p.WithRetryAfter(wait)
}
