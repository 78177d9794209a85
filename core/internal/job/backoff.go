package job

import (
	"math"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// MinBackoff is the shortest wait after a failure, whatever the policy says: a
// job that fails at once must not turn into a busy loop.
const MinBackoff = time.Second

// Retry says how long a job waits after a failure.
type Retry struct {
	Base time.Duration
	Cap  time.Duration
	// Jitter is a fraction, 0 to 1: the wait is spread evenly over ± that much.
	Jitter float64
}

// Wait is how long to wait after failure n (1 is the first):
//
//	min(cap, base·2^min(n−1, 30)), then ± jitter, never below a second.
//
// random is uniform in [0, 1); half of it is no jitter at all. The exponent is
// bounded and the product made in floating point, so no n can overflow.
func (r Retry) Wait(n int, random float64) time.Duration {
	exponent := min(max(n-1, 0), 30)
	wait := math.Min(float64(r.Cap), float64(r.Base)*math.Exp2(float64(exponent)))
	wait *= 1 + r.Jitter*(2*random-1)
	return max(time.Duration(wait), MinBackoff)
}

// DefaultRetry is the policy where neither the job nor its queue has one.
func DefaultRetry() Retry {
	return Retry{Base: api.DefaultRetryBase, Cap: api.DefaultRetryCap, Jitter: api.DefaultRetryJitter}
}
