package worker

import (
	"context"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// longestBeat bounds the time between two heartbeats, also without leases: without
	// them the server marks the worker STALE, then DEAD.
	longestBeat = 10 * time.Second
	// shortestLease bounds the length from below, so that a wrong answer does not make too many heartbeats.
	shortestLease = time.Second
)

// lease is one claimed job while it is this worker's.
type lease struct {
	job api.ClaimedJob
	// cancel ends the handler's context; only the first cause counts.
	cancel context.CancelCauseFunc
	// reports are what the handler reports.
	reports *reports
	// output is what the handler says; nil for a job that is only given back.
	output *output
	// sending is held while reports are sent: they arrive in order.
	sending turn
	// turn is closed when the job has a slot.
	turn chan struct{}

	// Guarded by leases.mu. The lease is assumed to last for length after renewed.
	renewed time.Time
	length  time.Duration
}

// leaseLength is the length of a lease from the server's lease_ms.
func leaseLength(ms int64) time.Duration {
	return max(time.Duration(ms)*time.Millisecond, shortestLease)
}

func newLease(job api.ClaimedJob, came time.Time, cancel context.CancelCauseFunc) *lease {
	return &lease{job: job, cancel: cancel, reports: &reports{}, sending: make(turn, 1), turn: make(chan struct{}), renewed: came, length: leaseLength(job.LeaseMS)}
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
	l.reports.wake = t.wake
	t.wake()
}

// wake lets the heartbeats look again at what is due.
func (t *leases) wake() {
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
func (t *leases) renew(l *lease, status api.LeaseStatus, now time.Time) {
	switch status.Status {
	case api.LeaseLost:
		l.cancel(ErrLeaseLost)
		t.drop(l) // its handler may run on for long; there is no lease to renew
		return
	case api.LeaseCancel:
		l.cancel(ErrCancelRequested)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l.renewed = now
	if status.LeaseMS != nil {
		l.length = leaseLength(*status.LeaseMS)
	}
}

// nextEnd is when the next lease is assumed to expire, at most by. Those that have
// expired already do not count.
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

// end is when the lease is assumed to expire.
func (t *leases) end(l *lease) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.renewed.Add(l.length)
}

// reapedBy is a whole length later. An expired lease is still its holder's until
// the server reaps it, which after an outage is late; an outcome can be accepted
// until then.
func (t *leases) reapedBy(l *lease) time.Time {
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
