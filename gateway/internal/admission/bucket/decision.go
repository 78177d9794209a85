package bucket

import "time"

// Verdict is the decision on a request.
type Verdict int

// Verdicts.
const (
	Admitted       Verdict = iota
	RateLimited            // a bucket has too little: 429 rate_limited
	CapReached             // a key of its Hints exists: 429 active_cap_reached
	CostAboveBurst         // more than a bucket ever holds: 400 cost_above_burst
)

// String is the reason word of metrics.
func (v Verdict) String() string {
	switch v {
	case Admitted:
		return "admitted"
	case RateLimited:
		return "rate_limited"
	case CapReached:
		return "active_cap_reached"
	case CostAboveBurst:
		return "cost_above_burst"
	default:
		return "unknown"
	}
}

// Decision is the answer to one request.
type Decision struct {
	Verdict Verdict
	// Local: this gateway decided in memory, because Redis was not available.
	Local bool
	// Policies has the state of every bucket of the request, after it. If the
	// verdict is CostAboveBurst no bucket was read: it has only those that are too
	// small, as if full.
	Policies []PolicyState
	// Hint is the value of the key that refused, where the verdict is CapReached.
	Hint string
	// RetryAfter is how long to wait until every policy that refused would admit
	// the same request; 0 where none did or the verdict is CostAboveBurst.
	RetryAfter time.Duration
}

// PolicyState is one bucket after a decision.
type PolicyState struct {
	Name string // of the policy
	User string // whose bucket it is, for the policies of users

	Limit     int64   // the burst
	Rate      float64 // a second, as the plan has it
	Cost      int64   // of this request
	Remaining int64
	Window    time.Duration // in which an empty bucket fills
	Reset     time.Duration // until it is full
	Next      time.Duration // until there is more than now; 0 if full

	Refused    bool
	RetryAfter time.Duration // until it would admit the cost; 0 if not refused
}

// Current is how much of the limit is in use.
func (p PolicyState) Current() int64 { return p.Limit - p.Remaining }

// Refused lists the policies that refused.
func (d *Decision) Refused() []PolicyState {
	var refused []PolicyState
	for _, p := range d.Policies {
		if p.Refused {
			refused = append(refused, p)
		}
	}
	return refused
}

// ClosedRetry is the Retry-After of a rate of 0, which only an operator can change.
const ClosedRetry = time.Minute

// policyState is the state of bucket b, which had debt before the request. quota is
// b's own, or this gateway's share of it.
func policyState(b *Bucket, quota Quota, debt int64, charged bool) PolicyState {
	p := PolicyState{
		Name: b.Policy, User: b.User, Limit: b.Quota.burst, Rate: b.Quota.PerSecond(), Cost: b.Cost,
		Window: b.Quota.Window(),
	}
	cost := b.Cost * ticks
	if !quota.fits(debt, b.Cost) {
		p.Refused, p.RetryAfter = true, quota.wait(debt+cost-quota.size())
	}
	if charged {
		debt += cost
	}
	p.Remaining = quota.remaining(debt)
	p.Reset = quota.wait(debt)
	p.Next = quota.wait(debt - (quota.size() - (p.Remaining+1)*ticks))
	if p.Remaining >= quota.burst {
		p.Next = p.Reset
	}
	return p
}

// closedState is the state of a bucket that admits nothing.
func closedState(b *Bucket) PolicyState {
	return PolicyState{Name: b.Policy, User: b.User, Cost: b.Cost, Refused: true, RetryAfter: ClosedRetry}
}

// decision puts the states of a request's buckets together. quotaOf gives the
// quota that the debts were counted by.
func decision(r *Request, peek bool, verdict Verdict, debts []int64, quotaOf func(Quota) Quota) Decision {
	d := Decision{Verdict: verdict, Policies: make([]PolicyState, len(r.Buckets))}
	for i := range r.Buckets {
		b := &r.Buckets[i]
		d.Policies[i] = policyState(b, quotaOf(b.Quota), debts[i], verdict == Admitted && !peek)
		d.RetryAfter = max(d.RetryAfter, d.Policies[i].RetryAfter)
	}
	return d
}

// withoutReading decides requests without reading a bucket: a policy that admits
// nothing, and a cost above the burst of its policy.
func withoutReading(r *Request) (Decision, bool) {
	var closed, above []PolicyState
	for i := range r.Buckets {
		b := &r.Buckets[i]
		switch {
		case b.Quota.Closed():
			closed = append(closed, closedState(b))
		case b.Cost > b.Quota.burst:
			above = append(above, PolicyState{
				Name: b.Policy, User: b.User, Limit: b.Quota.burst, Rate: b.Quota.PerSecond(), Cost: b.Cost,
				Remaining: b.Quota.burst, Window: b.Quota.Window(), Refused: true,
			})
		}
	}
	switch {
	case len(above) > 0: // no waiting and no operator's change of a rate makes it fit
		return Decision{Verdict: CostAboveBurst, Policies: above}, true
	case len(closed) > 0:
		return Decision{Verdict: RateLimited, Policies: closed, RetryAfter: ClosedRetry}, true
	default:
		return Decision{}, false
	}
}
