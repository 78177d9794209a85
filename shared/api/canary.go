package api

import "github.com/forgequeue/forgequeue/shared/problem"

// CanaryRequest asks for a careful redrive: a sample of the dead letters is queued
// first, and the others only after enough of the sample completed.
type CanaryRequest struct {
	// Count is how many the sample has at most: 1 to 1000.
	Count int `json:"count"`
	// Success is the part of the sample that must complete: above 0, at most 1.
	Success float64 `json:"success"`
	// TimeoutSeconds is the time within which the whole sample must end, from the
	// beginning of the redrive: 1 to 604,800 (seven days); null: 3600.
	TimeoutSeconds *int `json:"timeout_seconds,omitzero"`
}

// Canary is the sample of a redrive and what became of it.
type Canary struct {
	Count          int     `json:"count"`
	Success        float64 `json:"success"`
	TimeoutSeconds int     `json:"timeout_seconds"`
	// State is sampling: the sample is being queued; waiting: not all of it has ended;
	// passed: the redrive continues with the others; or failed: the redrive is stopped.
	State string `json:"state"`
	// Sampled are those of the sample that were queued again: the sum of the next three.
	Sampled   int `json:"sampled"`
	Completed int `json:"completed"`
	// Failed are those that died again, were cancelled, or were deleted.
	Failed int `json:"failed"`
	// Waiting are those that have not ended.
	Waiting int `json:"waiting"`
	// Reason says why the sample did not pass. Null unless state is failed.
	Reason *string `json:"reason"`
}

// The states of a canary, and its bounds.
const (
	CanarySampling = "sampling"
	CanaryWaiting  = "waiting"
	CanaryPassed   = "passed"
	CanaryFailed   = "failed"

	// MaxCanaryCount is the largest sample.
	MaxCanaryCount = 1000
	// DefaultCanaryTimeout and MaxCanaryTimeout are in seconds.
	DefaultCanaryTimeout = 3600
	MaxCanaryTimeout     = 7 * 24 * 3600
)

// WithDefaults has the timeout that applies.
func (c *CanaryRequest) WithDefaults() CanaryRequest {
	whole := *c
	if whole.TimeoutSeconds == nil {
		whole.TimeoutSeconds = new(DefaultCanaryTimeout)
	}
	return whole
}

// RefuseCanary tells that a discard has no canary.
func (d *DeadLetterRequest) RefuseCanary() []problem.FieldError {
	r := refusals{report: &report{}}
	r.check(d.Canary == nil, "canary", "can only be used for a redrive")
	return r.fields
}

func (c *CanaryRequest) rules(r refusals) {
	whole(r, "count", &c.Count, 1, MaxCanaryCount)
	r.above("success", &c.Success, 1, ", such as 0.9")
	whole(r, "timeout_seconds", c.TimeoutSeconds, 1, MaxCanaryTimeout)
}

// inTime refuses a sample that cannot be queued in its time.
func (c *CanaryRequest) inTime(r refusals, rate *float64) {
	if rate != nil && *rate > 0 {
		timeout, takes := *c.WithDefaults().TimeoutSeconds, float64(c.Count) / *rate
		r.check(takes < float64(timeout), "canary.timeout_seconds",
			"%d seconds are too few: at rate_per_second %g the sample of %d takes %.0f seconds to be queued; raise one, or lower canary.count",
			timeout, *rate, c.Count, takes)
	}
}
