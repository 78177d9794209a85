package explain

import (
	"math"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Turn is what the time of a job's start depends on.
type Turn struct {
	// Ahead are the jobs that are likely to start before it, more than api.MaxCountedAhead if they are not all counted.
	Ahead int64
	// PerSecond is how many of them, and of its own lane, start in a second while they wait; Known says that it is known.
	PerSecond float64
	Known     bool
	// New says that the job is not stored yet: without jobs ahead a worker may be free.
	New bool
}

// Estimate is when the job is likely to start; nil where that is not known.
func (t *Turn) Estimate() *api.Estimate {
	if !t.Known || t.PerSecond <= 0 || t.Ahead > api.MaxCountedAhead {
		return nil
	}
	return &api.Estimate{StartsInMS: t.startsInMS(), DrainPerSecond: rounded(t.PerSecond)}
}

// atLeastMS is how long the job is likely to wait at least; 0 where that is not known.
func (t *Turn) atLeastMS() int64 {
	if !t.Known || t.PerSecond <= 0 {
		return 0
	}
	return t.startsInMS()
}

func (t *Turn) startsInMS() int64 {
	n := float64(t.Ahead + 1)
	if t.New && t.Ahead == 0 {
		n = 0
	}
	const most = 1 << 50 // tens of thousands of years
	return int64(math.Min(math.Ceil(1000*n/t.PerSecond), most))
}

// rounded is a rate with three digits.
func rounded(perSecond float64) float64 {
	if perSecond <= 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(perSecond))-2)
	if unit >= 1 {
		return math.Round(perSecond)
	}
	inverse := math.Round(1 / unit)
	return math.Round(perSecond*inverse) / inverse
}
