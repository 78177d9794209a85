package explain

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
)

// Each refused caller comes later than the one before, at the pace of the places, and not later than the bound.
func TestReturnTimes(t *testing.T) {
	t.Parallel()
	var turns returnTimes
	now := time.Unix(1e9, 0)
	key, other := caps.CountKey{Counter: caps.ActiveTenant}, caps.CountKey{Counter: caps.ActiveQueue}
	var before time.Duration
	for i := range 100 {
		wait := turns.after(now, key, 8, 0)
		if i > 1 && wait-before != 100*time.Millisecond {
			t.Fatalf("the turns are %v apart", wait-before)
		}
		before = wait
	}
	if got := turns.after(now, other, 8, 0); got != leastTurn {
		t.Errorf("another cap's first waits %v", got)
	}
	for range 1000 {
		if got := turns.after(now, key, 8, 0.99); got > mostTurn {
			t.Fatalf("%v", got)
		}
	}
	if got := turns.after(now.Add(time.Hour), key, 8, 0); got != leastTurn {
		t.Errorf("after an hour the first waits %v", got)
	}
}
