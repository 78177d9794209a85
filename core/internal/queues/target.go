package queues

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Target is where a queue in push mode sends its jobs, with the defaults filled in.
type Target struct {
	// URL is empty for a queue without a target.
	URL     string
	Timeout time.Duration
	// Secret signs the calls. It is sealed, see package seal.
	Secret []byte
	// Previous signs the calls too, until PreviousUntil; it is sealed. nil after no rotation.
	Previous      []byte
	PreviousUntil *time.Time
	// Settle is what ends a job that is sent to a broker; Credentials are for the broker, sealed, nil for none.
	Settle      string
	Credentials []byte
	Breaker     Breaker
}

// Breaker says when a destination's breaker opens, and for how long.
type Breaker struct {
	// Calls is the minimum number of calls for a judgement, FailureRatio the share of them that may
	// fail.
	Calls        int
	FailureRatio float64
	Open         time.Duration
	// HalfOpen is how many probe calls a half-open breaker allows.
	HalfOpen int
}

// targetRow is a target as stored: nil is the default.
type targetRow struct {
	url, settle     *string
	secret          []byte
	credentials     []byte
	previous        []byte
	previousUntil   *time.Time
	timeout, open   *int64
	calls, halfOpen *int
	ratio           *float64
}

func (r targetRow) target() Target {
	if r.url == nil {
		return Target{}
	}
	return Target{
		URL: *r.url, Secret: r.secret, Previous: r.previous, PreviousUntil: r.previousUntil, Timeout: durationOr(r.timeout, api.DefaultPushTimeout),
		Settle: store.OrElse(r.settle, api.SettleConfirm), Credentials: r.credentials,
		Breaker: Breaker{
			Calls: store.OrElse(r.calls, api.DefaultBreakerCalls), FailureRatio: store.OrElse(r.ratio, api.DefaultBreakerFailureRatio),
			Open: durationOr(r.open, api.DefaultBreakerOpen), HalfOpen: store.OrElse(r.halfOpen, api.DefaultBreakerHalfOpen),
		},
	}
}

func durationOr(ms *int64, otherwise time.Duration) time.Duration {
	return store.OrElse(milliseconds(ms), otherwise)
}

// shown is the target as its owner sees it, without the secret.
func (t *Target) shown() *api.Push {
	if t.URL == "" {
		return nil
	}
	var settle *string
	if api.IsBrokerURL(t.URL) {
		settle = &t.Settle
	}
	return &api.Push{
		URL: t.URL, TimeoutMS: t.Timeout.Milliseconds(), Settle: settle, CredentialsSet: t.Credentials != nil,
		Breaker: api.BreakerSettings{
			Calls: t.Breaker.Calls, FailureRatio: t.Breaker.FailureRatio,
			OpenMS: t.Breaker.Open.Milliseconds(), HalfOpen: t.Breaker.HalfOpen,
		},
	}
}
