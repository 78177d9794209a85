package worker

import (
	"context"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// longestBeat bounds the time between two heartbeats, leases or none: without
	// them the server takes the worker for STALE, then DEAD.
	longestBeat = 10 * time.Second
	// shortestLease is the least length believed. Estimates are short by up to a
	// second; without a floor they would turn heartbeats into a flood.
	shortestLease = time.Second
)

// lease is one claimed job while it is this worker's.
type lease struct {
	job api.ClaimedJob
	// cancel ends the handler's context; only the first cause counts.
	cancel context.CancelCauseFunc
	// atMost bounds the length by the claim's own times; 0 if they tell nothing.
	atMost time.Duration

	// Guarded by leases.mu. The lease is believed to last for length after renewed.
	renewed time.Time
	length  time.Duration
}

// leaseLength is how long a lease lasts from now. The server says it as a length,
// told, which no clock can spoil; 0 from a server that does not. Then it is
// estimated: expires and server, the present time, are by the server's clock;
// server is zero if that is not known. doc.go tells why it is computed like this.
func leaseLength(told time.Duration, expires, server time.Time, atMost time.Duration) time.Duration {
	if told > 0 {
		return max(told, shortestLease)
	}
	length := api.DefaultVisibilityTimeout
	if !server.IsZero() {
		length = expires.Sub(server)
	}
	if atMost > 0 {
		length = min(length, atMost)
	}
	return max(length, shortestLease)
}

func newLease(job api.ClaimedJob, came, server time.Time, cancel context.CancelCauseFunc) *lease {
	// A job cannot have been claimed before it was made, and both times are the
	// database's: the lease is at most this long.
	atMost := job.LeaseExpiresAt.Sub(job.CreatedAt.Time)
	return &lease{
		job: job, cancel: cancel, atMost: atMost,
		renewed: came, length: leaseLength(time.Duration(job.LeaseMS)*time.Millisecond, job.LeaseExpiresAt.Time, server, atMost),
	}
}

// leases are all that the worker holds, by lease token: after a lost lease the
// same job may come back while its first handler still runs.
type leases struct {
	mu   sync.Mutex
	held map[string]*lease
	// changed wakes the heartbeats: a new lease may need one sooner.
	changed chan struct{}
}

func newLeases() *leases {
	return &leases{held: map[string]*lease{}, changed: make(chan struct{}, 1)}
}

func (t *leases) add(l *lease) {
	t.mu.Lock()
	t.held[l.job.LeaseToken] = l
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default: // a wake-up is waiting already
	}
}

func (t *leases) drop(l *lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.held, l.job.LeaseToken)
}

func (t *leases) all() []*lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*lease, 0, len(t.held))
	for _, l := range t.held {
		all = append(all, l)
	}
	return all
}

// due is when the next heartbeat should go out: a third into the first lease,
// and longestBeat after the last one.
func (t *leases) due(last time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := last.Add(longestBeat)
	for _, l := range t.held {
		if own := l.renewed.Add(min(l.length/3, longestBeat)); own.Before(due) {
			due = own
		}
	}
	return due
}

// shortest is the shortest length, at most longestBeat·3.
func (t *leases) shortest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	shortest := 3 * longestBeat
	for _, l := range t.held {
		shortest = min(shortest, l.length)
	}
	return shortest
}

// renew takes in what a heartbeat's answer says of one lease.
func (t *leases) renew(l *lease, status api.LeaseStatus, now, server time.Time) {
	switch status.Status {
	case api.LeaseLost:
		l.cancel(ErrLeaseLost)
		t.drop(l) // its handler may run on for long; there is nothing left to keep
		return
	case api.LeaseCancel:
		l.cancel(ErrCancelRequested)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l.renewed = now
	if status.LeaseExpiresAt != nil {
		var told time.Duration
		if status.LeaseMS != nil {
			told = time.Duration(*status.LeaseMS) * time.Millisecond
		}
		l.length = leaseLength(told, status.LeaseExpiresAt.Time, server, l.atMost)
	}
}

// nextEnd is when the next lease is believed to be over, at most by. Those that
// are over already do not count.
func (t *leases) nextEnd(by time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, l := range t.held {
		if end := l.renewed.Add(l.length); end.After(now) && end.Before(by) {
			by = end
		}
	}
	return by
}

// end is when the lease is believed to be over.
func (t *leases) end(l *lease) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.renewed.Add(l.length)
}

// certainEnd is a whole length later. A lease that is over by the clock is
// still its holder's until the server has taken it back, which it does late
// after an outage; an outcome is worth sending until then.
func (t *leases) certainEnd(l *lease) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.renewed.Add(2 * l.length)
}

// cancelAll ends every handler's context.
func (t *leases) cancelAll(cause error) {
	for _, l := range t.all() {
		l.cancel(cause)
	}
}
