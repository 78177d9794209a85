package deadletter

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// canaryPause and canaryPauseMax bound the time between two looks at a sample that is queued. In between it
// grows with the time waited: a sample of 1,000 that waits for days costs little.
const (
	canaryPause    = time.Second
	canaryPauseMax = 30 * time.Second
	canarySlowdown = 16
)

// newCanary is what is stored of a canary before its first step; nil without one.
func newCanary(request *api.CanaryRequest) *string {
	if request == nil {
		return nil
	}
	stored := string(store.JSON(api.Canary{
		Count: request.Count, Success: request.Success, TimeoutSeconds: *request.WithDefaults().TimeoutSeconds, State: api.CanarySampling,
	}))
	return &stored
}

// canaryTally is how a sample stands.
type canaryTally struct {
	chosen, skipped, queued, completed, failed int
}

func tallyOf(sample []*sampleRow) (t canaryTally) {
	for _, row := range sample {
		switch row.State {
		case sampleChosen:
			t.chosen++
		case sampleSkipped:
			t.skipped++
		case sampleQueued:
			t.queued++
		case sampleCompleted:
			t.completed++
		default:
			t.failed++
		}
	}
	return t
}

// size is the number of jobs in the sample; the skipped ones are no part of it.
func (t canaryTally) size() int { return t.chosen + t.queued + t.completed + t.failed }

// needed is how many must complete. A hair is taken off: 0.7 of 10 are seven.
func (t canaryTally) needed(success float64) int {
	return int(math.Ceil(success*float64(t.size()) - 1e-9))
}

// decide gives the state of a canary. Once too many have failed the others are not waited for.
func (t canaryTally) decide(success float64, expired bool) string {
	possible := t.chosen + t.queued + t.completed
	switch {
	case t.size() == 0 && t.skipped > 0, possible < t.needed(success):
		return api.CanaryFailed
	case t.chosen+t.queued == 0:
		return api.CanaryPassed
	case expired:
		return api.CanaryFailed
	case t.chosen > 0:
		return api.CanarySampling
	}
	return api.CanaryWaiting
}

// reasonOf says why a sample did not pass.
func reasonOf(canary *api.Canary, t canaryTally, sample []*sampleRow) string {
	if t.size() == 0 {
		return fmt.Sprintf("None of the %d jobs in the sample could be queued again: meanwhile they were redriven or discarded by others, or live jobs hold their dedupe_key.", t.skipped)
	}
	var text strings.Builder
	needed := t.needed(canary.Success)
	if t.chosen+t.queued+t.completed >= needed {
		fmt.Fprintf(&text, "After %d seconds %d of %d jobs in the sample had not ended", canary.TimeoutSeconds, t.chosen+t.queued, t.size())
		if t.chosen > 0 {
			fmt.Fprintf(&text, ", and %d of these were not queued again yet", t.chosen)
		}
		fmt.Fprintf(&text, "; %d completed, %d failed. Look whether workers serve the queue, and whether it is paused or in one of its windows.", t.completed, t.failed)
	} else {
		fmt.Fprintf(&text, "Of %d jobs in the sample %d completed and %d failed; at least %d must complete.", t.size(), t.completed, t.failed, needed)
	}
	if most, times := frequentError(sample); times > 0 {
		fmt.Fprintf(&text, " The most frequent error (%d of %d): %s", times, t.failed, most)
	}
	return text.String()
}

// frequentError is an example of the cause that most of a sample failed for, and how many did.
func frequentError(sample []*sampleRow) (example string, times int) {
	counts, examples := map[string]int{}, map[string]string{}
	for _, row := range sample {
		if row.State != sampleFailed {
			continue
		}
		counts[*row.Cause]++
		examples[*row.Cause] = *row.Error
		if n := counts[*row.Cause]; n > times {
			example, times = examples[*row.Cause], n
		}
	}
	return example, times
}

// pauseAfter is the time until a sample is looked at again.
func pauseAfter(waited, left time.Duration) time.Duration {
	return min(max(waited/canarySlowdown, canaryPause), canaryPauseMax, max(left, canaryPause))
}
