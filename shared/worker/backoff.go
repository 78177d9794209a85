package worker

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the wait after failure n, counted from 0: between a half and all
// of min(last, first·2^n).
func backoff(n int, first, last time.Duration) time.Duration {
	full := min(last, first<<min(n, 20))
	return full/2 + rand.N(full/2+1) //nolint:gosec // spreads load, guards nothing
}

// pause waits for d; false says that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
