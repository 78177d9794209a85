package cellclient

import "sync/atomic"

// A repeat costs what ten calls earn, so that repeats are at most a tenth of the
// calls: a failing core gets a tenth more load, not twice as much. The largest
// balance is enough for the connections of one core that restarts.
const (
	repeatCost = 10
	maxSaved   = 200 * repeatCost
)

// budget is the retry budget: the repeats that may be sent. It starts full.
type budget struct{ spent atomic.Int64 } // of maxSaved

// earn counts a call.
func (b *budget) earn() {
	for {
		spent := b.spent.Load()
		if spent == 0 || b.spent.CompareAndSwap(spent, spent-1) {
			return
		}
	}
}

// spend pays for a repeat, if there is enough left.
func (b *budget) spend() bool {
	for {
		spent := b.spent.Load()
		if spent+repeatCost > maxSaved {
			return false
		}
		if b.spent.CompareAndSwap(spent, spent+repeatCost) {
			return true
		}
	}
}
