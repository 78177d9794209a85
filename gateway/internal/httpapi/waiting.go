package httpapi

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
)

// shortest is about how long a request waits for which there is no place to wait
// longer.
const shortest = time.Second

// whileKeyIsGood gives a context that ends, with auth.ErrUnauthenticated for its cause,
// when the call's key is revoked or expires.
func (s *Server) whileKeyIsGood(ctx context.Context, c *call) (_ context.Context, release func()) {
	if c.wait == 0 || c.caller.Key == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	let := s.auth.Hold(ctx, c.caller.Key.KeyID, func() { cancel(auth.ErrUnauthenticated) })
	return ctx, func() {
		let()
		cancel(nil)
	}
}

// shortWait waits for a part of what the caller was ready to.
func shortWait(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(min(most, shortest/2+rand.N(shortest))) //nolint:gosec // jitter needs no secrecy
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
