package job

import (
	"math"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// MinBackoff is the shortest wait after a failure, for all policies: a job that fails at once must
// not become a busy loop.
const MinBackoff = time.Second

// Curve is how the wait grows from failure to failure.
type Curve string

// The curves; the empty one is Exponential.
const (
	Exponential Curve = api.CurveExponential
	Linear      Curve = api.CurveLinear
	Constant    Curve = api.CurveConstant
)

// OrDefault gives Exponential for the empty curve.
func (c Curve) OrDefault() Curve {
	if c == "" {
		return Exponential
	}
	return c
}

// Retry is the policy for the wait after a failure.
type Retry struct {
	Base time.Duration
	Cap  time.Duration
	// Jitter is a fraction, 0 to 1: the wait is spread evenly over ± that much.
	Jitter float64
	Curve  Curve
}

// Wait is how long to wait after failure n (1 is the first):
//
//	exponential  min(cap, base·2^min(n−1, 30))
//	linear       min(cap, base·n)
//	constant     min(cap, base)
//
// then ± jitter, never below a second. random is uniform in [0, 1); 0.5 is no jitter. The exponent
// is bounded and the product computed in floating point, so no n overflows.
func (r Retry) Wait(n int, random float64) time.Duration {
	failure := max(n, 1)
	grown := float64(r.Base)
	switch r.Curve.OrDefault() {
	case Linear:
		grown *= float64(failure)
	case Constant:
	default:
		grown *= math.Exp2(float64(min(failure-1, 30)))
	}
	return r.spread(math.Min(float64(r.Cap), grown), random)
}

// Defer is how long a job waits for a destination that cannot take it, after it has waited so long
// already: as long again, between base and cap, ± jitter. That doubles the total wait each time,
// with any curve, and needs no count of deferrals, which cost no attempt.
func (r Retry) Defer(waited time.Duration, random float64) time.Duration {
	return r.spread(math.Min(float64(r.Cap), math.Max(float64(r.Base), float64(waited))), random)
}

func (r Retry) spread(wait, random float64) time.Duration {
	return max(time.Duration(wait*(1+r.Jitter*(2*random-1))), MinBackoff)
}

// DefaultRetry is the policy if neither the job nor its queue has one.
func DefaultRetry() Retry {
	return Retry{Base: api.DefaultRetryBase, Cap: api.DefaultRetryCap, Jitter: api.DefaultRetryJitter, Curve: api.DefaultRetryCurve}
}
