package admission

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
)

// LimiterOptions configure a Limiter. The zero value is for a single gateway.
type LimiterOptions struct {
	// Replicas is how many gateways there are, used until they were counted in
	// Redis once; below 1 is 1.
	Replicas int
	// Prefix is before every key; empty is "fq:".
	Prefix string
	Logger *slog.Logger // nil: none
	// Registry gets the metrics; nil: none are registered.
	Registry prometheus.Registerer
}

// Limiter decides how much a caller may do, by buckets and by hints that a cap is full, and counts what it has decided. It
// never fails, and never admits without limits. Safe for concurrent use.
type Limiter struct {
	*bucket.Limiter

	client *redisclient.Client // nil where none is configured
	prefix string
	budget time.Duration
	logger *slog.Logger
	hints  chan struct{}
	uses   uses
}

// NewLimiter makes a Limiter on r. Nothing dials or starts: see Run.
func NewLimiter(r *Redis, opts LimiterOptions) *Limiter {
	opts.Prefix = cmp.Or(opts.Prefix, bucket.KeyPrefix)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	budget := cmp.Or(r.budget, bucket.Budget)
	return &Limiter{
		Limiter: bucket.New(r.client, bucket.Options{
			Budget: budget, Traced: r.traced, Replicas: opts.Replicas, Prefix: opts.Prefix, Logger: opts.Logger, Registry: opts.Registry,
		}),
		client: r.client, prefix: opts.Prefix, budget: budget, logger: opts.Logger, hints: make(chan struct{}, capHints),
	}
}

// Decision is the answer to one request.
type Decision struct {
	bucket.Decision

	// Cap is the cap that is full, where the verdict is CapReached.
	Cap *api.CapUse
}

// Admit decides, and charges every bucket of the request or none. It takes 50 ms
// at most, also if Redis hangs. A request without buckets and hints is admitted.
func (l *Limiter) Admit(ctx context.Context, r bucket.Request) Decision {
	d := Decision{Decision: l.Limiter.Admit(ctx, r)}
	if d.Verdict == bucket.CapReached {
		var wait time.Duration
		d.Cap, wait = parseCap(d.Hint)
		d.RetryAfter = max(d.RetryAfter, afterHint(wait))
	}
	return d
}

// Peek reads the states of a request's buckets; it charges nothing.
func (l *Limiter) Peek(ctx context.Context, r bucket.Request) Decision {
	return Decision{Decision: l.Limiter.Peek(ctx, r)}
}
