package explain

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

const (
	// leastWaitRetry and mostWaitRetry bound when a job that would wait for too long may be tried again.
	leastWaitRetry = 100 * time.Millisecond
	mostWaitRetry  = time.Minute
)

// WouldWait is the refusal of a job that may wait for so long; nil for none.
func (t *Turn) WouldWait(mostMS int64) *problem.Problem {
	likely := t.atLeastMS()
	if likely <= mostMS {
		return nil
	}
	retry := time.Duration(min(likely-mostMS, mostWaitRetry.Milliseconds())) * time.Millisecond
	retry = max(retry, leastWaitRetry)
	retry += rand.N(retry/10 + 1) //nolint:gosec // spreads load, guards nothing
	refusal := problem.New(problem.WouldWait, fmt.Sprintf(
		"The job's turn is likely to come in %d ms, and it may wait for %d: %d jobs are likely to start before it, %v in a second. Nothing was stored.",
		likely, mostMS, t.Ahead, rounded(t.PerSecond)))
	refusal.Policies = append(refusal.Policies, problem.Policy{Name: "wait", Limit: mostMS, Current: likely, RetryAfterMS: new(retry.Milliseconds())})
	return refusal.WithRetryAfter(retry)
}
