package bucket

import (
	"context"
	"errors"

	"github.com/sony/gobreaker/v2"
)

// errDoubt answers requests that waited when Redis was put in doubt.
var errDoubt = errors.New("bucket: Redis does not answer")

// suspect puts Redis in doubt: requests that wait for it, and all until a probe has
// succeeded, are decided locally.
func (l *Limiter) suspect(ctx context.Context) {
	l.doubt.Store(true)
	l.batcher.RejectWaiting(errDoubt)
	l.client.FindMasters(ctx)
}

// Reachable says whether Redis is expected to answer; false where there is none.
func (l *Limiter) Reachable() bool {
	return l.client != nil && !l.doubt.Load() && l.breaker.State() == gobreaker.StateClosed
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
			l.doubt.Store(false)
		} else {
			l.client.FindMasters(ctx)
		}
	}()
}

// trial charges a bucket that only this gateway uses, so that it writes.
func (l *Limiter) trial() *scriptCall {
	return newCall([]string{l.prefix + "{gateway-" + l.id + "}:probe"}, []any{"charge", 0, 1, int64(milli), int64(1_000_000), int64(1)})
}
