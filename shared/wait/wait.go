// Package wait pauses, unless a context ends first.
package wait

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d. The error is ctx's, where that ends first or has ended; a d of zero or
// less is no wait.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// About waits as For does, for a random time of half of d to one and a half times d, so that
// processes which were started together do not go on together.
func About(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	return For(ctx, d/2+rand.N(d)) //nolint:gosec // spreads load, guards nothing
}
