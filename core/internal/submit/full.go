package submit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// turn is when a refused caller may come back: the same for all jobs of a submission under the same caps.
type turn struct {
	full    []caps.FullCap
	refusal *problem.Problem
}

// capReached says which caps are full.
func (t *turn) capReached(full []caps.FullCap, room RetryAfter) *problem.Problem {
	same := func(a, b caps.FullCap) bool { return a == b }
	if t.refusal == nil || !slices.EqualFunc(t.full, full, same) {
		t.full, t.refusal = full, CapReached(full, room)
	}
	return t.refusal
}

// CapReached says which caps are full, and when a caller may come back: when room gives it a place, or where that is not
// known after a guess, spread so that callers refused together come back apart.
func CapReached(full []caps.FullCap, room RetryAfter) *problem.Problem {
	code := problem.QueueFull
	var wait time.Duration
	unknown := false
	var said []string
	policies := make([]problem.Policy, 0, len(full))
	for _, c := range full {
		if c.Counter != caps.ActiveQueue {
			code = problem.ActiveCapReached
		}
		what := map[caps.Counter]string{
			caps.ActiveTenant: "the tenant", caps.ActiveUser: fmt.Sprintf("the user %q", c.Name), caps.ActiveQueue: fmt.Sprintf("the queue %q", c.Name),
		}[c.Counter]
		said = append(said, fmt.Sprintf("%s has %d active jobs and may have %d", what, c.Used, c.Limit))
		policy := problem.Policy{Name: c.Counter.String(), Limit: c.Limit, Current: c.Used}
		if likely, known := room.of(c); known {
			policy.RetryAfterMS = new(likely.Milliseconds())
			wait = max(wait, likely)
		} else {
			unknown = true
		}
		policies = append(policies, policy)
	}
	if unknown {
		wait = max(wait, time.Second+rand.N(time.Second)) //nolint:gosec // spreads load, guards nothing
	}
	refusal := problem.New(code, "A cap on active jobs is reached: "+strings.Join(said, ", ")+". Try again when jobs have ended, or cancel some.")
	refusal.Policies = policies
	return refusal.WithRetryAfter(wait)
}

// of is when there is room under one cap. One of 0 has none before it is raised.
func (r RetryAfter) of(full caps.FullCap) (time.Duration, bool) {
	if r == nil || full.Limit == 0 {
		return 0, false
	}
	return r(full.CountKey)
}
