package hints

import (
	"testing"
	"time"
)

// A hint that is lost alone, such as the first one after a start, is no line of the log. Losses that last are one, and so
// is their end.
func TestLossesAreSaidOnceTheyLast(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	var l losses
	for i, step := range []struct {
		lost          bool
		at            time.Duration
		changed, said bool
	}{
		{true, 0, false, false},
		{true, lostFor - 1, false, false},
		{false, lostFor, false, false}, // another row of losses begins after it
		{true, 2 * lostFor, false, false},
		{true, 3 * lostFor, true, true},
		{true, 4 * lostFor, false, true},
		{false, 5 * lostFor, true, false},
		{true, 6 * lostFor, false, false},
	} {
		if changed := l.note(step.lost, begun.Add(step.at)); changed != step.changed || l.said != step.said {
			t.Errorf("step %d: changed %v, said %v", i, changed, l.said)
		}
	}
}
