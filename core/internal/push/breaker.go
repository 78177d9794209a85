package push

import (
	"errors"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// leastWindow is the time whose calls a breaker judges; buckets is the number of steps in which
	// it rolls.
	leastWindow = 30 * time.Second
	buckets     = 10
)

// breakerKey names a breaker: one for each tenant, destination, and breaker settings of a tenant's
// queues.
type breakerKey struct {
	tenant      tenant.ID
	destination string
	settings    queues.Breaker
	window      time.Duration
}

func keyOf(settings *queues.Settings, destination string) breakerKey {
	return breakerKey{
		tenant: settings.Tenant, destination: destination, settings: settings.Target.Breaker,
		// a call that began before the window is not judged, so the window must be longer
		window: max(leastWindow, 2*settings.Target.Timeout),
	}
}

// breaker is a destination's, with its current calls.
type breaker struct {
	key breakerKey
	// gate is held at each step of the circuit, which changes its state in no other. The time that it
	// stays open is kept here, and not by the circuit, so that a probe can end it: for the circuit that
	// time is over at once, and until retryAt nobody looks.
	gate    sync.Mutex
	circuit *gobreaker.TwoStepCircuitBreaker[*answer]
	// since is when it entered its state; retryAt is zero unless it is open.
	since, retryAt time.Time

	// Guarded by the Executor: inFlight are the jobs admitted for the destination, waiting those of
	// them without a call yet.
	inFlight, waiting int
}

// change is called on each change of state, under the breaker's gate; it must not block.
type change func(key breakerKey, from, to gobreaker.State)

// errFailing marks calls that count as failures of the destination, errCancelledByCore those that do not
// count.
var (
	errFailing         = errors.New("push: the destination fails")
	errCancelledByCore = errors.New("push: the call was cancelled by core")
)

func newBreaker(key breakerKey, onChange change) *breaker {
	b := &breaker{key: key}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[*answer](gobreaker.Settings{
		MaxRequests:  uint32(key.settings.HalfOpen), //nolint:gosec // 1 to 1000
		Interval:     key.window,
		BucketPeriod: key.window / buckets,
		Timeout:      time.Nanosecond, // see gate
		ReadyToTrip:  func(counts gobreaker.Counts) bool { return trips(counts, key.settings) },
		IsExcluded:   func(err error) bool { return errors.Is(err, errCancelledByCore) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			b.since, b.retryAt = time.Now(), time.Time{}
			if to == gobreaker.StateOpen {
				b.retryAt = b.since.Add(key.settings.Open)
			}
			onChange(key, from, to)
		},
	})
	return b
}

// state is the breaker's, which may change by that: it becomes half-open when its time is over.
func (b *breaker) state() gobreaker.State {
	b.gate.Lock()
	defer b.gate.Unlock()
	return b.stateNow()
}

// stateNow is state, with the gate held.
func (b *breaker) stateNow() gobreaker.State {
	if b.isOpen() {
		return gobreaker.StateOpen
	}
	return b.circuit.State()
}

func (b *breaker) isOpen() bool { return time.Now().Before(b.retryAt) }

// tryNow makes an open breaker half-open before its time.
func (b *breaker) tryNow() {
	b.gate.Lock()
	defer b.gate.Unlock()
	b.retryAt = time.Time{}
	b.circuit.State()
}

// trips says whether a breaker opens: too many of the window's calls have failed, or enough in a
// row to judge. The second rule is for destinations that failed suddenly: their many earlier
// successes would outvote the failures for a while, and each failure costs a job an attempt.
func trips(counts gobreaker.Counts, settings queues.Breaker) bool {
	enough := uint32(settings.Calls) //nolint:gosec // 1 to 1000
	if counts.ConsecutiveFailures >= enough {
		return true
	}
	judged := counts.TotalSuccesses + counts.TotalFailures
	return judged >= enough && float64(counts.TotalFailures) >= settings.FailureRatio*float64(judged)
}

// probes is how many more calls a half-open breaker allows. The Executor's lock guards waiting.
func (b *breaker) probes() int {
	counts := b.circuit.Counts()
	return b.key.settings.HalfOpen - int(counts.Requests) + int(counts.TotalExclusions) - b.waiting
}

// shown is the breaker as its owner sees it.
func (b *breaker) shown() *api.Breaker {
	b.gate.Lock()
	defer b.gate.Unlock()
	state := b.stateNow()
	shown := &api.Breaker{State: state.String()}
	if !b.since.IsZero() {
		since := api.At(b.since.UTC())
		shown.Since = &since
	}
	if state == gobreaker.StateOpen && !b.retryAt.IsZero() {
		retryAt := api.At(b.retryAt.UTC())
		shown.RetryAt = &retryAt
	}
	return shown
}

// call makes one call, if the breaker allows it; probe says that the breaker was half-open.
func (b *breaker) call(do func() (*answer, error)) (a *answer, probe bool, err error) {
	done, probe, err := b.enter()
	if err != nil {
		return nil, false, err
	}
	err = errFailing // of a panic
	defer func() { b.leave(done, err) }()
	a, err = do()
	return a, probe, err
}

// enter asks the circuit for a call, which done ends.
func (b *breaker) enter() (done func(error), probe bool, err error) {
	b.gate.Lock()
	defer b.gate.Unlock()
	if b.isOpen() {
		return nil, false, gobreaker.ErrOpenState
	}
	done, err = b.circuit.Allow()
	return done, b.circuit.State() != gobreaker.StateClosed, err
}

// leave tells the circuit how a call ended. While it is open that is a call from before, which does not
// count any more.
func (b *breaker) leave(done func(error), err error) {
	b.gate.Lock()
	defer b.gate.Unlock()
	if !b.isOpen() {
		done(err)
	}
}

// refused says that the breaker did not allow the call.
func refused(err error) bool {
	return errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
}
