package cellclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const (
	// probes bounds the concurrent calls of a half-open breaker; as many in a row must
	// succeed before it closes.
	probes = 3
	// buckets of the rolling window.
	buckets = 10
	// minJudged is the number of ended calls that the breaker needs to open.
	minJudged = 20
)

// breakers refuse calls while core does not answer, one for each class: if submits
// hang, on a lock for example, heartbeats continue.
type breakers [hop.OrderedClasses]*gobreaker.TwoStepCircuitBreaker[struct{}]

// newBreakers makes them. A call counts in the bucket in which it began, so that
// window must be longer than calls can take, or those that hang never count.
func newBreakers(window, open time.Duration, logger *slog.Logger) *breakers {
	var all breakers
	for c := range hop.OrderedClasses {
		all[c] = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
			Name:         c.String(),
			MaxRequests:  probes,
			Interval:     window,
			BucketPeriod: window / buckets,
			Timeout:      open,
			ReadyToTrip:  trips,
			IsExcluded:   func(err error) bool { return errors.Is(err, context.Canceled) },
			OnStateChange: func(name string, from, to gobreaker.State) {
				logger.Warn("the breaker of the hop has changed", "class", name, "from", from.String(), "to", to.String())
			},
		})
	}
	return &all
}

// trips decides whether the breaker opens. A core that is down fails every call;
// to wait until half of a window of old successes has failed would take as long as
// the window. Counts.Requests cannot be used: it includes calls in flight.
func trips(counts gobreaker.Counts) bool {
	judged := counts.TotalFailures + counts.TotalSuccesses
	return counts.ConsecutiveFailures >= minJudged || (judged >= minJudged && 2*counts.TotalFailures >= judged)
}

// open returns whether a class's calls are refused now.
func (b *breakers) open(c hop.Class) bool {
	return c < hop.OrderedClasses && b[c].State() == gobreaker.StateOpen
}

// try admits one try of a call; done reports its end. Parked calls and probes have
// no breaker.
func (b *breakers) try(c hop.Class) (done func(error), _ error) {
	if c >= hop.OrderedClasses {
		return func(error) {}, nil
	}
	done, err := b[c].Allow()
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", errOpen, c)
	}
	return done, nil
}

// verdict is what a try's end means for the breaker: nil is a success, Canceled is
// not counted, because the caller has left.
//
// Only no answer and 5xx are failures. A refusal of an item, and any 4xx, is a
// success. So is 503 overloaded: core answers it at once and sheds load item by
// item; a breaker that opened on it would refuse all other calls too, heartbeats
// included, and turn a peak of load into an outage.
func verdict(caller context.Context, answer reply, err error) error {
	switch {
	case err == nil && (answer.status < http.StatusInternalServerError || isRefusal(answer)):
		return nil
	case err == nil:
		return fmt.Errorf("status %d", answer.status)
	case errors.Is(err, ErrContract), errors.Is(err, ErrOverloaded):
		return nil // core answered
	case errors.Is(err, errHungUp):
		return nil // the gateway closed it: nothing was sent
	case errors.Is(caller.Err(), context.Canceled):
		return context.Canceled
	case errors.Is(err, context.Canceled):
		return errors.New("cut off") // not by the caller
	}
	return err
}

// isRefusal says that core works, and refuses this call: it has too many, or another cell has the tenant.
func isRefusal(answer reply) bool {
	var refusal problem.Problem
	return answer.status == http.StatusServiceUnavailable &&
		json.Unmarshal(answer.body, &refusal) == nil && (refusal.Code == problem.Overloaded || refusal.Code == problem.TenantMoving)
}
