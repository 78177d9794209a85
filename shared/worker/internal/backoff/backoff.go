// Package backoff says how long a worker waits after a failure.
package backoff

import (
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/shared/client"
)

// After is the wait after failure n, counted from 0: between a half and all
// of min(last, first·2^n).
func After(n int, first, last time.Duration) time.Duration {
	full := min(last, first<<min(n, 20))
	return full/2 + rand.N(full/2+1) //nolint:gosec // spreads load, guards nothing
}

const (
	// First is the first wait after a failed claim, registration or flush.
	First = 100 * time.Millisecond
	// longestAsked bounds the wait that the server may ask for.
	longestAsked = time.Minute
)

// Asked is the wait after failure n, counted from 0: the server's Retry-After
// in err plus jitter, so that not all workers return at once; without one, it is After.
func Asked(n int, last time.Duration, err error) time.Duration {
	wait := After(n, First, last)
	if asked := client.RetryAfter(err); asked > 0 {
		wait = min(asked, longestAsked) + wait/4
	}
	return wait
}
