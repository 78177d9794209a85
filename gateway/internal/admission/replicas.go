package admission

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// beatEvery is how often a gateway says that it lives.
	beatEvery = time.Second
	// beatLife is how long it counts after the last time. Counted too long, it
	// makes the shares of the others smaller, never larger.
	beatLife = 5 * time.Second
	// gatewaysKey is a sorted set of gateways by the time of their last beat, in
	// milliseconds of Redis TIME. It expires with its youngest member.
	gatewaysKey = "gateways"
)

// Run counts this gateway among those on the same Redis, until ctx ends, and then
// takes it off. While Redis is away it sees to it that probes are made even
// without requests.
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

// Replicas is how many gateways share the rates: as last seen in Redis, or else
// as configured, or else 1.
func (l *Limiter) Replicas() int {
	if seen := l.replicas.Load(); seen > 0 {
		return int(seen)
	}
	return max(1, l.opts.Replicas)
}

// beat registers this gateway and counts all. Where it fails the last count
// stands: whether Redis does well is judged by the limiter's own calls.
func (l *Limiter) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	_ = fenced(func() error { return l.register(ctx) })
}

func (l *Limiter) register(ctx context.Context) error {
	now, err := l.client.Time(ctx).Result()
	if err != nil {
		return err
	}
	key := l.prefix + gatewaysKey
	gone := strconv.FormatInt(now.Add(-beatLife).UnixMilli(), 10)
	var count *redis.IntCmd
	// One transaction, so that the key is never without a TTL.
	_, err = l.client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.ZAdd(ctx, key, redis.Z{Score: float64(now.UnixMilli()), Member: l.id})
		tx.ZRemRangeByScore(ctx, key, "-inf", gone)
		tx.PExpire(ctx, key, beatLife)
		count = tx.ZCard(ctx, key)
		return nil
	})
	if err == nil {
		l.counted(count.Val(), time.Now())
	}
	return err
}

// counted takes a count in. A lower one holds only when it has been seen for two beats:
// a Redis that was emptied knows of nobody until each has beaten again.
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

// leave lets the others have this gateway's share two beats later.
func (l *Limiter) leave(ctx context.Context) {
	if !l.reachable() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.budget)
	defer cancel()
	_ = fenced(func() error { return l.client.ZRem(ctx, l.prefix+gatewaysKey, l.id).Err() }) // it expires by itself
}
