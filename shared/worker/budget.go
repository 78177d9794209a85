package worker

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Used says how much of a budget the attempt has used, at least 0: the last call for a budget counts. It is sent with the
// outcome, whatever that is, and takes the place of what the attempt has reserved (the job's costs). Without it an attempt has used
// what it reserved. The amount is cut to 0 … 2^50; a budget that cannot be one, or is more than the 8th, is left out and logged.
func (i *Info) Used(budget string, amount int64) {
	if i.used != nil && !i.used.set(budget, min(max(amount, 0), api.MaxAmount)) {
		i.Logger().Warn("what was used of a budget is not reported: it must be a name, and at most 8 of them", "budget", budget)
	}
}

// used is what an attempt has used of budgets.
type used struct {
	mu      sync.Mutex
	amounts api.Amounts
}

func (u *used) set(budget string, amount int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.amounts == nil {
		u.amounts = api.Amounts{}
	}
	if _, known := u.amounts[budget]; !api.ValidName(budget) || !known && len(u.amounts) == api.MaxCosts {
		return false
	}
	u.amounts[budget] = amount
	return true
}

func (u *used) all() api.Amounts {
	if u == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.amounts)
}

// Throttled returned as a handler's error says that what a budget is of refused the attempt, such as a provider with 429: the
// budget is closed for d, for all jobs, and this one waits for as long without spending the attempt. It has used nothing of the
// budget, unless Used says so. A nil err has no reason.
func Throttled(err error, budget string, d time.Duration) error {
	d = min(max(d, time.Millisecond), api.MaxDelay)
	throttled := &throttledError{snoozeError{d}, budget}
	if err == nil {
		return throttled
	}
	return fmt.Errorf("%w: %w", err, throttled)
}

// defaultRetryAfter is for a refusal that does not say when to come back.
const defaultRetryAfter = 10 * time.Second

// RetryAfterOf is when to come back by the header Retry-After of a response, in seconds or as a date; 10 s where it says nothing,
// and at least 1 s. For Throttled.
func RetryAfterOf(response *http.Response) time.Duration {
	header := response.Header.Get("Retry-After")
	after := defaultRetryAfter
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		after = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		after = time.Until(at)
	}
	return min(max(after, time.Second), api.MaxDelay)
}

// throttledError is a snooze that closes a budget.
type throttledError struct {
	snoozeError

	budget string
}

func (e *throttledError) Unwrap() error { return &e.snoozeError }

// throttleOf is what an error says of budgets; nil for nothing.
func throttleOf(err error) map[string]api.Throttle {
	throttled, ok := errors.AsType[*throttledError](err)
	if !ok {
		return nil
	}
	return map[string]api.Throttle{throttled.budget: {RetryAfterMS: throttled.delay.Milliseconds()}}
}
