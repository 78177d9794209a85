package coreclient

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
)

const (
	// probes is how many calls try a core that was away, at most at a time; as many
	// in a row must go well before the breaker closes.
	probes = 3
	// buckets of the rolling window.
	buckets = 10
	// minJudged is how many calls it takes for a judgement.
	minJudged = 20
)

// breakers stand between calls and a core that does not answer, one for each class:
// where submits hang, on a lock perhaps, heartbeats go on.
type breakers [ordered]*gobreaker.TwoStepCircuitBreaker[struct{}]

// newBreakers makes them. A call counts in the bucket in which it began, so that
// window must be longer than calls can take, or those that hang never count.
func newBreakers(window, open time.Duration, logger *slog.Logger) *breakers {
	var all breakers
	for c := range ordered {
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

// trips judges the window. A core that is gone fails every call; waiting for half
// of a window full of old successes to fail would take as long as the window.
// Counts.Requests is of no use here: it has those that are still in flight.
func trips(counts gobreaker.Counts) bool {
	judged := counts.TotalFailures + counts.TotalSuccesses
	return counts.ConsecutiveFailures >= minJudged || (judged >= minJudged && 2*counts.TotalFailures >= judged)
}

// open says whether a class's calls are refused for now.
func (b *breakers) open(c class) bool { return c < ordered && b[c].State() == gobreaker.StateOpen }

// try lets one try of a call out and says where to report its end; parked calls
// and probes are none of its business.
func (b *breakers) try(c class) (done func(error), _ error) {
	if c >= ordered {
		return func(error) {}, nil
	}
	done, err := b[c].Allow()
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", errOpen, c)
	}
	return done, nil
}

// verdict is what a try's end says of core: nil is that it does its work, Canceled
// that nobody waited to see.
//
// Only silence and 5xx count. A refusal of an item, and any 4xx, is core at work.
// So is 503 overloaded: core answers it at once and sheds what it must, item by
// item; a breaker that opened on it would turn away the rest as well, heartbeats
// included, and make an outage of a busy hour.
func verdict(caller context.Context, answer reply, err error) error {
	switch {
	case err == nil && (answer.status < http.StatusInternalServerError || isOverloaded(answer)):
		return nil
	case err == nil:
		return fmt.Errorf("status %d", answer.status)
	case errors.Is(err, ErrContract):
		return nil // it did answer
	case errors.Is(err, errHungUp):
		return nil // it was us: core was not even asked
	case errors.Is(caller.Err(), context.Canceled):
		return context.Canceled
	case errors.Is(err, context.Canceled):
		return errors.New("cut off") // not by the caller
	}
	return err
}

func isOverloaded(answer reply) bool {
	var refusal problem.Problem
	return answer.status == http.StatusServiceUnavailable &&
		json.Unmarshal(answer.body, &refusal) == nil && refusal.Code == problem.Overloaded
}
