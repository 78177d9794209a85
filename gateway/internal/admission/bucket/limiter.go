package bucket

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"

	"github.com/forgequeue/forgequeue/shared/server/batch"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
)

const (
	// Budget is how long a request waits for Redis at most, queueing included.
	Budget = 50 * time.Millisecond
	// tripAfter failures in a row open the breaker: the flush that failed, and
	// the probe after it.
	tripAfter = 2
	// openFor is the time between two probes while the breaker is open.
	openFor = 500 * time.Millisecond
	// KeyPrefix is before every key in Redis.
	KeyPrefix = "fq:"
)

// Mode is where decisions are made.
type Mode string

// Modes.
const (
	ModeRedis Mode = "redis"
	ModeLocal Mode = "local"
)

// Options configure a Limiter. The zero value is for a single gateway.
type Options struct {
	// Budget is how long a request waits for Redis; 0 is 50 ms.
	Budget time.Duration
	// Traced says that the client's calls make spans.
	Traced bool
	// Replicas is how many gateways there are, used until they were counted in
	// Redis once; below 1 is 1.
	Replicas int
	// LocalBuckets is how many buckets are remembered in the process; 0 is 100,000.
	LocalBuckets int
	// Prefix is before every key; empty is "fq:".
	Prefix string
	Logger *slog.Logger // nil: none
	// Registry gets the metrics; nil: none are registered.
	Registry prometheus.Registerer
	// OnMode is called on each change, if not nil, while requests wait: it must not
	// block, nor call the Limiter.
	OnMode func(Mode)
}

// Limiter decides how much a caller may do. It asks Redis while that answers, and
// otherwise decides in memory, with its share of each rate. It never fails, and
// never admits without limits. Safe for concurrent use.
//
//	Admit ──▶ withoutReading? ──▶ Redis in order? ──▶ batch ──▶ script, all buckets at once
//	                             │ no, or its 50 ms are over
//	                             └──▶ local, rate ÷ gateways
//
// One failed flush marks Redis as degraded: from then on no request waits for it, and
// a probe in the background is sent at once. If that fails too the breaker opens,
// and a probe follows every half second while there are requests; the first to
// succeed closes it.
type Limiter struct {
	client   *redisclient.Client // nil where none is configured
	traced   bool                // its calls make spans
	prefix   string
	budget   time.Duration
	id       string // of this gateway, among those that Redis has seen
	script   redisclient.Script
	local    *local
	opts     Options
	breaker  *gobreaker.CircuitBreaker[struct{}]
	metrics  *metrics
	degraded atomic.Bool
	probing  atomic.Bool
	away     atomic.Bool  // the change to local was reported
	replicas atomic.Int64 // last seen in Redis; 0: never
	// fewerSince is since when fewer are seen; Run alone uses it.
	fewerSince time.Time
	// batcher makes flushes of the requests that Redis decides.
	batcher *batch.Batcher[question, *answer]
}

// New makes a Limiter on a client of Dial, nil for none. Nothing dials or starts: see Run.
func New(client *redisclient.Client, opts Options) *Limiter {
	if opts.Prefix == "" {
		opts.Prefix = KeyPrefix
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	l := &Limiter{
		client: client,
		traced: opts.Traced,
		prefix: opts.Prefix,
		budget: cmp.Or(opts.Budget, Budget),
		id:     uuid.NewString(),
		script: redisclient.NewScript(limiterLua),
		local:  newLocal(opts.LocalBuckets),
		opts:   opts,
	}
	l.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name:          "redis",
		MaxRequests:   1,
		Timeout:       openFor,
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		OnStateChange: l.stateChanged,
	})
	l.batcher = l.newBatcher()
	l.metrics = newMetrics(opts.Registry, l)
	return l
}

// Admit decides, and charges every bucket of the request or none. It takes 50 ms
// at most, also if Redis hangs. A request without buckets and hints is admitted.
func (l *Limiter) Admit(ctx context.Context, r Request) Decision {
	d, done := withoutReading(&r)
	if !done {
		d = l.decide(ctx, &r, false)
	}
	l.metrics.decided(&d)
	return d
}

// Peek reads the states of a request's buckets; it charges nothing.
func (l *Limiter) Peek(ctx context.Context, r Request) Decision {
	var open Request
	var closed []PolicyState
	for i := range r.Buckets {
		if r.Buckets[i].Quota.Closed() {
			closed = append(closed, closedState(&r.Buckets[i]))
			continue
		}
		open.Buckets = append(open.Buckets, r.Buckets[i])
	}
	d := l.decide(ctx, &open, true)
	d.Policies = append(d.Policies, closed...)
	return d
}

func (l *Limiter) decide(ctx context.Context, r *Request, peek bool) Decision {
	if len(r.Buckets)+len(r.Hints) == 0 {
		return Decision{Verdict: Admitted}
	}
	if l.inOrder(ctx) {
		if answer := l.ask(ctx, r, peek); answer != nil && len(answer.debts) == len(r.Buckets) {
			d := decision(r, peek, answer.verdict, answer.debts, func(q Quota) Quota { return q })
			if !peek {
				l.local.observe(r, answer.verdict == Admitted, answer.debts, l.Replicas())
			}
			d.Hint = answer.hint
			return d
		}
	}
	return l.local.decide(r, peek, l.Replicas())
}

// Mode says where requests are decided now.
func (l *Limiter) Mode() Mode {
	if l.client == nil || l.breaker.State() != gobreaker.StateClosed {
		return ModeLocal
	}
	return ModeRedis
}

// stateChanged is called by the breaker, under its lock. Half-open is no change:
// requests are decided locally until a probe has succeeded.
func (l *Limiter) stateChanged(_ string, _, to gobreaker.State) {
	var mode Mode
	switch to {
	case gobreaker.StateOpen:
		if !l.away.CompareAndSwap(false, true) {
			return // a probe failed
		}
		mode = ModeLocal
		l.opts.Logger.Warn("limiter is local: Redis does not answer in time, or cannot write", "replicas", l.Replicas())
	case gobreaker.StateClosed:
		l.away.Store(false)
		l.degraded.Store(false)
		mode = ModeRedis
		l.opts.Logger.Warn("limiter is back on Redis")
	default:
		return
	}
	if l.opts.OnMode != nil {
		l.opts.OnMode(mode)
	}
}
