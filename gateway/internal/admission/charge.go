package admission

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Cost is what a route's requests are charged to the tenant, the key and the user.
type Cost int

const (
	// CostRequest is one request. It is the zero value: what costs nothing must say so.
	CostRequest Cost = iota
	// CostJobs is one request and each job that is sent to core. It is known when the
	// body was read.
	CostJobs
	// CostReports is what renews or ends a lease: heartbeats and outcomes. If they were
	// refused, a busy tenant's jobs would run twice; so they have their own bucket, which
	// correct workers do not empty. It is known when the body was read.
	CostReports
	// CostNothing is never refused: questions about limits and about the key itself.
	CostNothing
)

// KnownEarly says that the cost is known before the body: what is refused need not be read.
func (c Cost) KnownEarly() bool { return c == CostRequest || c == CostNothing }

// Work is what a request is charged for; the zero value is the request alone.
type Work struct {
	// jobs has how many for each user; under "" those without a user.
	jobs map[string]int64
	// takesSlots says that each takes a slot under the caps, or is refused by core as
	// a whole: then a hint may refuse it.
	takesSlots bool
	// reports is how many outcomes or leases a worker reports.
	reports int
}

// Submit is the work of a submit, to which Add adds the jobs that go on to core. whole
// says that core refuses it as a whole where a cap is full: a single job, or an atomic
// batch; of any other batch core takes what fits, and each job has an answer of its own.
// keyed says that it has an Idempotency-Key, and so may be a replay, which takes no slot.
func Submit(whole, keyed bool) Work {
	return Work{jobs: map[string]int64{}, takesSlots: whole && !keyed}
}

// Add counts a job. One with a dedupe_key may turn out to be there already, and
// then takes no slot.
func (w *Work) Add(job *api.SubmitRequest) {
	user := ""
	if job.User != nil {
		user = *job.User
	}
	w.jobs[user]++
	w.takesSlots = w.takesSlots && job.DedupeKey == nil
}

// onlyUser is the user of all the jobs; empty if they have none or several.
func (w *Work) onlyUser() string {
	if len(w.jobs) != 1 {
		return ""
	}
	for user := range w.jobs {
		return user
	}
	return ""
}

// Reports is the work of a worker that reports so many outcomes or leases.
func Reports(n int) Work { return Work{reports: n} }

// Account is the caller that a request is charged to, and the decision.
type Account struct {
	// Key is the API key of the caller; nil: not charged.
	Key  *hop.KeyRecord
	Cost Cost
	// Decision is nil until it is made, and where none is.
	Decision *Decision
}

// RefusedError is a request that admission refused.
type RefusedError struct{ Decision *Decision }

func (e *RefusedError) Error() string { return "admission: " + e.Decision.Verdict.String() }

// Charge decides a request, once: a repeat does nothing. The error is a *RefusedError.
func (l *Limiter) Charge(ctx context.Context, a *Account, work Work) error {
	if a.Key == nil || a.Decision != nil {
		return nil
	}
	charged, pays := a.request(work)
	if !pays {
		a.Decision = new(l.Peek(ctx, charged))
		return nil
	}
	a.Decision = new(l.Admit(ctx, charged))
	l.uses.count(a, &work)
	if a.Decision.Verdict != bucket.Admitted {
		return &RefusedError{a.Decision}
	}
	return nil
}

// request lists what the work is charged to; pays is false where it is only looked at.
func (a *Account) request(work Work) (r bucket.Request, pays bool) {
	use := a.use()
	switch a.Cost {
	case CostNothing:
		return NewPeek(use, use.User, a.limits), false
	case CostReports:
		return NewReports(use, int64(max(work.reports, 1)), a.limits) // one without any is one
	default:
		use.Jobs, use.TakesSlots = work.jobs, work.takesSlots
		return NewRequest(use, a.limits), true
	}
}

// Look decides nothing: it reads the buckets of the account, and of user if that is
// not empty.
func (l *Limiter) Look(ctx context.Context, a *Account, user string) {
	a.Decision = new(l.Peek(ctx, NewPeek(a.use(), user, a.limits)))
}

func (a *Account) use() Use {
	return Use{Tenant: a.Key.Tenant, KeyID: a.Key.KeyID, User: a.Key.User}
}

// limits gives the limits in force for a user of the key's tenant; a platform
// key has none.
func (a *Account) limits(user string) api.Limits {
	var plan api.Limits
	if a.Key.Plan != nil {
		plan = a.Key.Plan.Limits
	}
	return a.Key.Overrides.For(plan, user)
}

// Capped says whether the account's jobs come under a cap on active jobs by the limits
// of the key; the settings of queues only core knows.
func (a *Account) Capped() bool {
	if a.Key == nil {
		return false
	}
	limits := a.limits(a.Key.User)
	return limits.MaxActive != nil || limits.UserMaxActive != nil || (a.Key.Overrides != nil && len(a.Key.Overrides.Users) > 0)
}
