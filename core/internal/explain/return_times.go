package explain

import (
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
)

const (
	// surplus is how many more callers come back than places are freed: some places would stay empty otherwise, which
	// lowers the rate, and with it the number of callers that come back.
	surplus = 1.25
	// leastTurn and mostTurn bound a wait: beyond it callers come back at any time of its second half.
	leastTurn = 100 * time.Millisecond
	mostTurn  = 15 * time.Second
	// maxReturnTimes bounds the caps that are remembered.
	maxReturnTimes = 10_000
)

// returnTimes hands out times to come back to callers that were refused for a full cap: to each its own, at the pace at which
// places are freed.
type returnTimes struct {
	mu   sync.Mutex
	next map[caps.CountKey]time.Time
}

// after gives how long the next caller waits for a place under a cap that frees so many in a second. random is from 0 to
// below 1.
func (t *returnTimes) after(now time.Time, key caps.CountKey, perSecond, random float64) time.Duration {
	gap := time.Duration(float64(time.Second) / (surplus * perSecond))
	t.mu.Lock()
	defer t.mu.Unlock()
	turn := now.Add(gap)
	if next := t.next[key]; next.After(turn) {
		turn = next
	}
	if turn.Sub(now) > mostTurn {
		return mostTurn/2 + time.Duration(random*float64(mostTurn/2))
	}
	if t.next == nil || len(t.next) >= maxReturnTimes {
		t.next = map[caps.CountKey]time.Time{}
	}
	t.next[key] = turn.Add(gap)
	return max(turn.Sub(now), leastTurn+time.Duration(random*float64(leastTurn)))
}
