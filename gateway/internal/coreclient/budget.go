package coreclient

import "sync/atomic"

// A repeat costs as much as ten calls bring in, so that repeats are at most a
// tenth of the calls: a core that is failing gets a tenth more work, not twice as
// much. What is saved up is enough for the connections of one core that restarts.
const (
	repeatCost = 10
	maxSaved   = 200 * repeatCost
)

// budget is how many repeats there may be. It starts full.
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
