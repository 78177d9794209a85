package bucket

import (
	"context"
	"time"
)

const (
	// beatEvery is the interval of a gateway's heartbeats.
	beatEvery = time.Second
	// beatLife is how long it counts after its last one. Counting it too long makes
	// the shares of the others smaller, never larger.
	beatLife = 5 * time.Second
	// gatewaysKey is a sorted set of gateways by the time of their last beat, in
	// milliseconds of Redis TIME. It expires with its youngest member.
	gatewaysKey = "gateways"
)

// Run registers this gateway in Redis until ctx ends, and then removes it. While
// Redis is away it starts probes even without requests.
func (l *Limiter) Run(ctx context.Context) {
	if l.client == nil {
		<-ctx.Done()
		return
	}
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		if l.inOrder(ctx) {
			l.beat(ctx)
		}
		select {
		case <-ctx.Done():
			l.leave(ctx)
			return
		case <-ticker.C:
		}
	}
}

// Replicas is how many gateways share the rates: as last seen in Redis; before
// that, as configured; by default 1.
func (l *Limiter) Replicas() int {
	if seen := l.replicas.Load(); seen > 0 {
		return int(seen)
	}
	return max(1, l.opts.Replicas)
}

// beat registers this gateway and counts all. If it fails the last count is kept:
// only the limiter's own calls mark Redis as degraded.
func (l *Limiter) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	if seen, err := l.client.Beat(ctx, l.prefix+gatewaysKey, l.id, beatLife); err == nil {
		l.counted(seen, time.Now())
	}
}

// counted takes a count in. A lower one is used only once it was seen for two beats:
// a Redis that was emptied has no gateways until each has registered again.
func (l *Limiter) counted(seen int64, now time.Time) {
	if seen >= l.replicas.Load() {
		l.replicas.Store(seen)
		l.fewerSince = time.Time{}
		return
	}
	if l.fewerSince.IsZero() {
		l.fewerSince = now
	}
	if now.Sub(l.fewerSince) >= 2*beatEvery {
		l.replicas.Store(seen)
		l.fewerSince = time.Time{}
	}
}

// leave gives this gateway's share to the others, two beats later.
func (l *Limiter) leave(ctx context.Context) {
	if !l.Reachable() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.budget)
	defer cancel()
	_ = l.client.Leave(ctx, l.prefix+gatewaysKey, l.id) // it expires by itself
}
