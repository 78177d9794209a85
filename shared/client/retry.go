package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	maxTries = 4
	// The wait before try n+1 is drawn from 0 to min(backoffCap, backoffBase·2^(n−1)).
	backoffBase = 250 * time.Millisecond
	backoffCap  = 5 * time.Second
	// longestAsked is the longest Retry-After that is waited for: beyond it the
	// caller gets the error at once.
	longestAsked = time.Minute
)

// nextTry says whether to try again after err, and how long to wait first.
func (c *Client) nextTry(ctx context.Context, one call, tries int, err error) (time.Duration, bool) {
	if c.oneTry || one.oneTry || tries >= maxTries || ctx.Err() != nil || !retryable(one, err) {
		return 0, false
	}
	asked := RetryAfter(err)
	pause := asked + rand.N(min(backoffCap, backoffBase<<(tries-1))+1) //nolint:gosec // spreads load, guards nothing
	if asked > longestAsked {
		return 0, false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
		return 0, false // the refusal tells the caller more than a deadline exceeded
	}
	scheduled := Status(err) == http.StatusTooManyRequests && asked > 0
	if !scheduled && !c.budget.spend() {
		return 0, false
	}
	return pause, true
}

// outlast waits before another call of a sequence, such as the polls of a wait, after err; tries counts those that failed
// since the last answer. It returns err, or ctx's with it, if the sequence is over. Unlike nextTry it never gives up:
// ctx bounds an outage.
func (c *Client) outlast(ctx context.Context, one call, tries int, err error) error {
	if ctx.Err() != nil || !retryable(one, err) {
		return err
	}
	if over := wait.For(ctx, pauseAfter(tries, err)); over != nil {
		return fmt.Errorf("%w; the last answer: %w", over, err)
	}
	return nil
}

// pauseAfter is the wait after the nth try in a row that failed.
func pauseAfter(tries int, err error) time.Duration {
	most := min(backoffCap, backoffBase<<min(tries-1, maxTries))
	return RetryAfter(err) + rand.N(most) //nolint:gosec // spreads load, guards nothing
}

// retryable says whether a repeat is safe and may succeed.
func retryable(one call, err error) bool {
	status := Status(err)
	if status == 0 {
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok || errors.Is(err, errTooLarge) {
			return false
		}
		return one.repeatable || nothingWritten(err)
	}
	if !one.repeatable {
		return false
	}
	switch status {
	case http.StatusTooManyRequests:
		// The caller has said that it does not want to wait.
		p, ok := problem.From(err)
		return !ok || p.Code != problem.WouldWait
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusConflict:
		// An earlier try of this very call is still under way.
		p, ok := problem.From(err)
		return ok && p.Code == problem.IdempotencyInFlight
	default:
		return false
	}
}

// nothingWritten says that no connection was made: the server did not get the call.
func nothingWritten(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}

// The budget, in tenths of a retry.
const (
	retryCost   = 10
	callEarns   = 1
	budgetLimit = 10 * retryCost
)

// budget is a token bucket that bounds retries to a share of the calls, so that
// a server that is down sees at most 1.1 times its usual load, after a burst of ten.
// The idea is Finagle's RetryBudget and gRPC's retry throttling (proposal A6).
type budget struct {
	mu     sync.Mutex
	tenths int
}

func newBudget() *budget { return &budget{tenths: budgetLimit} }

func (b *budget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenths = min(b.tenths+callEarns, budgetLimit)
}

// spend takes a retry out of the bucket, if there is one.
func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tenths < retryCost {
		return false
	}
	b.tenths -= retryCost
	return true
}
