package bucket

import (
	"context"
	"errors"

	"github.com/sony/gobreaker/v2"
)

// errDegraded answers requests that waited when Redis was marked as degraded.
var errDegraded = errors.New("bucket: Redis does not answer")

// markDegraded takes Redis for degraded: requests that wait for it, and all until a probe has
// succeeded, are decided locally.
func (l *Limiter) markDegraded(ctx context.Context) {
	l.degraded.Store(true)
	l.batcher.RejectWaiting(errDegraded)
	l.client.FindMasters(ctx)
}

// Reachable says whether Redis is expected to answer; false where there is none.
func (l *Limiter) Reachable() bool {
	return l.client != nil && !l.degraded.Load() && l.breaker.State() == gobreaker.StateClosed
}

// inOrder is Reachable; if it is false, it starts a probe.
func (l *Limiter) inOrder(ctx context.Context) bool {
	if l.client == nil {
		return false
	}
	if l.Reachable() {
		return true
	}
	l.probe(ctx)
	return false
}

// probe runs in the background, one at a time, and tests what the limiter needs: the
// script, and memory to write. The breaker decides when.
func (l *Limiter) probe(ctx context.Context) {
	if l.breaker.State() == gobreaker.StateOpen || !l.probing.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer l.probing.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.budget)
		defer cancel()
		_, err := l.breaker.Execute(func() (struct{}, error) {
			return struct{}{}, run(ctx, l.client, l.script, []*scriptCall{l.trial()})
		})
		if err == nil {
			l.degraded.Store(false)
		} else {
			l.client.FindMasters(ctx)
		}
	}()
}

// trial charges a bucket that only this gateway uses, so that it writes.
func (l *Limiter) trial() *scriptCall {
	return newCall([]string{l.prefix + "{gateway-" + l.id + "}:probe"}, []any{"charge", 0, 1, int64(milli), int64(1_000_000), int64(1)})
}
