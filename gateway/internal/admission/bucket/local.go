package bucket

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// localBuckets is how many buckets a gateway has in memory, some 25 MB. One that is
// evicted is full again: a caller with enough users to cause that is limited by its
// tenant's bucket, which every request uses.
const localBuckets = 100_000

// local decides in the process, by the same arithmetic, with this gateway's share of
// each rate. Its buckets are updated from Redis while that answers: so a bucket that is
// empty in Redis is empty here when Redis is lost, and a Redis that fails repeatedly
// does not admit a burst each time.
type local struct {
	began time.Time // its clock begins here, and never steps

	mu      sync.Mutex
	buckets *simplelru.LRU[string, state]
}

func newLocal(size int) *local {
	if size <= 0 {
		size = localBuckets
	}
	buckets, _ := simplelru.NewLRU[string, state](size, nil) // it fails only for a size below 1
	return &local{began: time.Now(), buckets: buckets}
}

// decide settles a request whose buckets can all pay in principle: see withoutReading.
func (l *local) decide(r *Request, peek bool, replicas int) Decision {
	charges, states := make([]charge, len(r.Buckets)), make([]state, len(r.Buckets))
	for i := range r.Buckets {
		charges[i] = charge{quota: r.Buckets[i].Quota.share(replicas), cost: r.Buckets[i].Cost}
	}
	debts, pass := l.chargeAll(r, charges, states, peek)
	verdict := Admitted
	if !pass {
		verdict = RateLimited
	}
	d := decision(r, peek, verdict, debts, func(q Quota) Quota { return q.share(replicas) })
	d.Local = true
	return d
}

func (l *local) chargeAll(r *Request, charges []charge, states []state, peek bool) (debts []int64, pass bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.began).Microseconds()
	for i := range r.Buckets {
		states[i], _ = l.buckets.Get(r.Buckets[i].Key)
	}
	debts, pass = chargeAll(charges, states, now, peek)
	if peek {
		return debts, pass
	}
	for i := range states {
		l.buckets.Add(r.Buckets[i].Key, states[i])
	}
	return debts, pass
}

// observe takes over what Redis has decided: the debt of a bucket is at least that in
// Redis.
func (l *local) observe(r *Request, admitted bool, debts []int64, replicas int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.began).Microseconds()
	for i := range r.Buckets {
		b := &r.Buckets[i]
		debt, quota := debts[i], b.Quota.share(replicas)
		if admitted {
			debt += b.Cost * ticks
		}
		held, _ := l.buckets.Get(b.Key)
		own, stale := quota.debt(held, now)
		if debt > own || stale {
			l.buckets.Add(b.Key, quota.after(max(debt, own), now))
		}
	}
}
